//! Framing alone.
