//! How the program is laid out, which is what of it lies in memory.
//!
//! Its relocations are packed: as plain entries they are a megabyte that the loader reads at every start and that counts
//! as resident memory. Needs glibc 2.36. With `TRAPKEY_ORDER`, a file of symbols, the functions in it stand together in
//! front of all others, so that a server touches few pages; `bench order` makes such a file.

fn main() {
    println!("cargo:rerun-if-changed=build.rs");
    println!("cargo:rerun-if-env-changed=TRAPKEY_ORDER");
    if std::env::var("CARGO_CFG_TARGET_OS").is_ok_and(|os| os == "linux") {
        println!("cargo:rustc-link-arg-bins=-Wl,-z,pack-relative-relocs");
        if let Some(order) = std::env::var_os("TRAPKEY_ORDER").filter(|order| !order.is_empty()) {
            let order = order.to_string_lossy();
            println!("cargo:rerun-if-changed={order}");
            println!("cargo:rustc-link-arg-bins=-Wl,--symbol-ordering-file={order},--no-warn-symbol-ordering");
        }
    }
}
