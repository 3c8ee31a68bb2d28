//! Chooses the locks and atomics of shuttle.

fn main() {
    println!("cargo::rustc-cfg=mcp_shuttle");
    println!("cargo::rerun-if-changed=build.rs");
}
