//! Packs the relocations of the program: as plain entries they are a megabyte that the loader reads at every start and
//! that counts as resident memory. Needs glibc 2.36. Finds out with which library of cryptography it is built.

fn main() {
    println!("cargo:rerun-if-changed=build.rs");
    println!("cargo:rerun-if-changed=../../Cargo.lock");
    if std::env::var("CARGO_CFG_TARGET_OS").is_ok_and(|os| os == "linux") {
        println!("cargo:rustc-link-arg-bins=-Wl,-z,pack-relative-relocs");
    }
    println!("cargo:rustc-env=AWS_LC_RS_VERSION={}", library().unwrap_or_else(|| "unknown".into()));
}

/// The version of `aws-lc-rs` in the lock file.
fn library() -> Option<String> {
    #[expect(clippy::disallowed_methods, reason = "a build script has no other way to the lock file")]
    let lock = std::fs::read_to_string("../../Cargo.lock").ok()?;
    let (_, rest) = lock.split_once("name = \"aws-lc-rs\"\nversion = \"")?;
    Some(rest.split_once('"')?.0.to_owned())
}
