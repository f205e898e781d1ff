//! `trapkey up` itself as a process under measurement: one `[[server]]` and no authority, whoever comes may browse and
//! read. And the order in which its functions stand in the program (`bench order`): those that such a server runs first.

use std::collections::{BTreeMap, BTreeSet};
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::sync::Arc;
use std::time::Duration;

use arc_swap::ArcSwap;
use gates::pki::PkiStore;
use ua_proto::client::Credential;
use ua_proto::pki::TrustSettings;

use crate::load::{Security, Way};
use crate::measures::bytes::browse_everything;
use crate::scratch::Scratch;
use crate::subject::Subject;
use crate::{Failed, files, journal};

const CONFIG: &str = r#"
[plant]
file = "plant.toml"
policies = "policies.cedar"
workflow = "workflow.toml"
[store]
database = "var/trapkey.db"
[audit]
ledger = "var/ledger"
key = "var/audit.pem"
[log]
filter = "error"
[client]
pki = "pki/hmi"
[[server]]
name = "mixer"
simulate = "mixer"
listen = "127.0.0.1:0"
pki = "pki/mixer"
authority = "https://localhost:1"
authority_opcua = "opc.tcp://localhost:2"
policies = ["Basic256Sha256"]
identities = ["anonymous"]
[[server.anonymous]]
rights = ["browse", "read"]
"#;

/// The plant of the example, with certificates for everybody in it.
#[derive(Debug)]
pub struct Real {
    folder: Scratch,
    program: PathBuf,
}

impl Real {
    /// Builds the program, laid out by `target/order.txt` if there is one, and makes its folder.
    ///
    /// # Errors
    /// It cannot be built, or cannot make certificates.
    pub fn make() -> Result<Self, Failed> {
        let mut build = Command::new(std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into()));
        build.current_dir(journal::workspace());
        build.args(["build", "--release", "--locked", "--quiet", "--package", "trapkey"]);
        if files::read(&order_file()).is_ok() {
            build.env("TRAPKEY_ORDER", order_file());
        }
        if !build.status()?.success() {
            return Err("trapkey could not be built".into());
        }
        let target =
            std::env::var_os("CARGO_TARGET_DIR").map_or_else(|| journal::workspace().join("target"), PathBuf::from);
        let real = Self { folder: Scratch::new()?, program: target.join("release/trapkey") };
        for name in ["plant.toml", "policies.cedar", "workflow.toml"] {
            files::copy(&journal::workspace().join("examples/batch-plant").join(name), &real.folder.path().join(name))?;
        }
        files::write(&real.folder.path().join("trapkey.toml"), CONFIG)?;
        let certificates = real.command(&[]).args(["certs", "init"]).stdout(Stdio::null()).status()?;
        certificates.success().then_some(real).ok_or_else(|| "certificates could not be made".into())
    }

    /// The program in its folder, run under another one if one is named.
    fn command(&self, under: &[String]) -> Command {
        let mut command = match under.split_first() {
            Some((under, words)) => {
                let mut command = Command::new(under);
                command.args(words).arg(&self.program);
                command
            }
            None => Command::new(&self.program),
        };
        command.current_dir(self.folder.path());
        command
    }

    /// Starts the server.
    ///
    /// # Errors
    /// It does not come up.
    pub fn up(&self, under: &[String]) -> Result<Subject, Failed> {
        let mut command = self.command(under);
        command.args(["--output", "json", "up"]);
        Subject::telling(command, "\"at\"", |line| Ok(line["at"].as_str().ok_or("no address")?.to_owned()))
    }

    /// How the client of the example comes in.
    ///
    /// # Errors
    /// The server does not answer.
    pub async fn way(&self, subject: &Subject) -> Result<Way, Failed> {
        let store = PkiStore::new(self.folder.path().join("pki/hmi"), TrustSettings::default());
        let trust = Arc::new(ArcSwap::from_pointee(store.load()?));
        let own = (Arc::new(store.identity()?), trust);
        Way::with(subject.url(), Security::Encrypt, Credential::Anonymous, own).await
    }
}

fn order_file() -> PathBuf {
    journal::workspace().join("target/order.txt")
}

/// `bench order`: writes `target/order.txt`. The functions are those that run while a server starts, is browsed as a whole
/// and ends.
///
/// # Errors
/// valgrind is missing, or the program cannot be built.
pub fn order() -> Result<(), Failed> {
    let real = Real::make()?;
    let out = real.folder.path().join("callgrind.out");
    let out_word = format!("--callgrind-out-file={}", out.display());
    let under = ["valgrind", "-q", "--tool=callgrind", "--demangle=no", &out_word].map(str::to_owned);
    let server = real.up(&under)?;
    crate::measures::runtime()?.block_on(async {
        let way = real.way(&server).await?;
        for _ in 0..2 {
            browse_everything(&way).await?;
        }
        // What is done every second.
        tokio::time::sleep(Duration::from_secs(15)).await;
        Ok::<(), Failed>(())
    })?;
    end(server.into_child()?)?;
    let names = functions(&String::from_utf8_lossy(&files::read(&out)?), "release/trapkey");
    files::write(&order_file(), names.join("\n") + "\n")?;
    println!("{} functions in {}", names.len(), order_file().display());
    Ok(())
}

/// Asks it to end, so that callgrind writes what it has seen.
fn end(mut child: Child) -> Result<(), Failed> {
    Command::new("kill").arg(child.id().to_string()).status()?;
    child.wait()?;
    Ok(())
}

/// The functions of one object that callgrind saw at work. Names are written once, with a number that stands for them
/// afterwards.
fn functions(text: &str, object: &str) -> Vec<String> {
    let mut names: BTreeMap<&str, &str> = BTreeMap::new();
    let mut objects: BTreeMap<&str, &str> = BTreeMap::new();
    let mut seen = BTreeSet::new();
    let mut inside = false;
    for line in text.lines() {
        let Some((key, value)) = line.split_once('=') else { continue };
        let (number, name) = value.split_once(' ').unwrap_or((value, ""));
        match key {
            "ob" | "cob" => {
                if !name.is_empty() {
                    objects.insert(number, name);
                }
                if key == "ob" {
                    inside = objects.get(number).is_some_and(|known| known.ends_with(object));
                }
            }
            "fn" | "cfn" => {
                if !name.is_empty() {
                    names.insert(number, name);
                }
                if key == "fn" && inside {
                    seen.insert(number);
                }
            }
            _ => {}
        }
    }
    let own = |name: &&str| !name.contains('\'') && !name.starts_with("0x");
    let mut list: Vec<String> =
        seen.iter().filter_map(|at| names.get(at).copied()).filter(own).map(str::to_owned).collect();
    list.sort_unstable();
    list.dedup();
    list
}

#[cfg(test)]
mod tests {
    use super::functions;

    #[test]
    fn functions_of_the_program_are_listed_once_and_those_of_libraries_not() {
        let text = "ob=(1) /lib/libc.so.6\nfn=(1) malloc\n1 2\ncob=(2) /target/release/trapkey\ncfn=(2) serve\n\
                    ob=(2)\nfn=(2)\n1 2\nfn=(3) main\ncfn=(1)\nfn=(2)\n1 1\nob=(1)\nfn=(4) free\n";
        assert_eq!(functions(text, "release/trapkey"), ["main", "serve"]);
    }
}
