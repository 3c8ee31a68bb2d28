//! The MCP vocabulary.
