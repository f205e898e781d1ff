//! Packs the relocations of the program: as plain entries they are a megabyte that the loader reads at every start and
//! that counts as resident memory. Needs glibc 2.36.

fn main() {
    println!("cargo:rerun-if-changed=build.rs");
    if std::env::var("CARGO_CFG_TARGET_OS").is_ok_and(|os| os == "linux") {
        println!("cargo:rustc-link-arg-bins=-Wl,-z,pack-relative-relocs");
    }
}
