//! Writes the JavaScript of a WebAssembly module: `bindgen FILE.wasm FOLDER`.

use std::error::Error;

use wasm_bindgen_cli_support::Bindgen;

fn main() -> Result<(), Box<dyn Error>> {
    let arguments: Vec<_> = std::env::args().skip(1).collect();
    let [module, folder] = &arguments[..] else { return Err("usage: bindgen FILE.wasm FOLDER".into()) };
    let mut bindgen = Bindgen::new();
    bindgen.input_path(module).web(true)?.typescript(false).remove_name_section(true);
    Ok(bindgen.generate(folder)?)
}
