//! Members of JSON objects that others wrote.
