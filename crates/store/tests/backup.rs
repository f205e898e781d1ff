//! Backups taken from a running program, restored, and refused when anything about them is wrong.

use std::path::{Path, PathBuf};

use access_model::{Actor, AuditKind, AuditRecord, Outcome, UnixTime};
use store::{
    Application, ApplicationKind, BackupError, CheckpointKey, Db, DbConfig, KeyKind, Ledger, LedgerConfig,
    RestoreTarget, Sync, backup, restore, tail,
};

struct Plant {
    folder: tempfile::TempDir,
    db: Db,
    ledger: Ledger,
}

fn record(object: &str) -> AuditRecord {
    AuditRecord {
        at: UnixTime::from_seconds(1),
        kind: AuditKind::Write,
        actor: Actor::default(),
        object: object.into(),
        outcome: Outcome::Allowed,
        detail: String::new(),
        count: 1,
        epoch: None,
        place: None,
    }
}

fn application(uri: &str) -> Application {
    Application {
        uri: uri.into(),
        name: uri.into(),
        kind: ApplicationKind::Server,
        certificates: Vec::new(),
        secret_hash: None,
        enabled: true,
        created: UnixTime::from_seconds(1),
    }
}

impl Plant {
    async fn new() -> Self {
        let folder = tempfile::tempdir().unwrap();
        let db = Db::open(&DbConfig { path: folder.path().join("t.db"), sync: Sync::Os }).await.unwrap();
        let key = CheckpointKey::load_or_create(&folder.path().join("key.pem"), KeyKind::Ed25519).unwrap();
        let config = LedgerConfig { rotate_bytes: 3_000, ..LedgerConfig::default() };
        let ledger = Ledger::open(&folder.path().join("ledger"), config, key).unwrap();
        Self { folder, db, ledger }
    }

    async fn live(&self, from: u32, to: u32) {
        for number in from..to {
            self.db.put_application(&application(&format!("urn:{number}"))).await.unwrap();
            self.ledger.append(record(&format!("urn:{number}"))).await.unwrap();
        }
    }

    async fn backup(&self) -> PathBuf {
        self.ledger.checkpoint().await.unwrap();
        let archive = self.folder.path().join("backup.tar");
        backup(&self.db, self.ledger.folder(), &archive).await.unwrap();
        archive
    }

    fn target(&self, replace: bool) -> RestoreTarget {
        let (db, ledger) = (self.folder.path().join("t.db"), self.folder.path().join("ledger"));
        RestoreTarget { db, ledger, key: Some(self.ledger.key().clone()), replace }
    }

    fn elsewhere(&self) -> RestoreTarget {
        let folder = self.folder.path().join("elsewhere");
        RestoreTarget { db: folder.join("t.db"), ledger: folder.join("ledger"), ..self.target(false) }
    }
}

async fn applications(path: &Path) -> usize {
    let db = Db::open(&DbConfig { path: path.to_owned(), sync: Sync::Os }).await.unwrap();
    let count = db.applications().await.unwrap().len();
    db.close().await;
    count
}

#[tokio::test]
async fn a_backup_of_a_running_program_is_restored_over_what_came_after() {
    use std::os::unix::fs::PermissionsExt;
    let plant = Plant::new().await;
    plant.live(0, 30).await;
    let archive = plant.backup().await;
    assert_eq!(std::fs::metadata(&archive).unwrap().permissions().mode() & 0o777, 0o600);
    plant.live(30, 40).await;
    let target = plant.target(true);
    assert!(matches!(restore(&archive, &target).await, Err(BackupError::InUse { .. })));
    assert!(matches!(restore(&archive, &plant.target(false)).await, Err(BackupError::Exists { .. })));
    plant.ledger.close().await;
    plant.db.close().await;
    let report = restore(&archive, &target).await.unwrap();
    assert_eq!(report.records, 30);
    assert_eq!(applications(&target.db).await, 30);
    assert_eq!(tail(&target.ledger, usize::MAX).unwrap().len(), 30);
    // What was there is still there, under another name.
    let aside = report.put_aside.iter().find(|path| path.is_dir()).unwrap();
    assert_eq!(tail(aside, usize::MAX).unwrap().len(), 40);
    let aside = report.put_aside.iter().find(|path| path.is_file()).unwrap();
    assert_eq!(applications(aside).await, 40);
    // The ledger goes on from the backup.
    let key = CheckpointKey::load_or_create(&plant.folder.path().join("key.pem"), KeyKind::Ed25519).unwrap();
    let ledger = Ledger::open(&target.ledger, LedgerConfig::default(), key).unwrap();
    ledger.append(record("after")).await.unwrap();
    ledger.close().await;
    let verified = store::verify(&target.ledger, None).unwrap();
    assert!(verified.is_intact(), "{verified:?}");
    assert_eq!(verified.recoveries, []);
}

#[tokio::test]
async fn an_archive_with_any_part_changed_changes_nothing() {
    let plant = Plant::new().await;
    plant.live(0, 20).await;
    let archive = plant.backup().await;
    let sound = std::fs::read(&archive).unwrap();
    let target = plant.elsewhere();
    let mut places: Vec<usize> = (0..sound.len()).step_by(sound.len() / 60).collect();
    places.extend([0, 513, 600]);
    for place in places {
        let mut bytes = sound.clone();
        bytes[place] ^= 1;
        std::fs::write(&archive, &bytes).unwrap();
        // Padding of the tar format, and a digit of the time in the manifest, mean nothing.
        if restore(&archive, &target).await.is_ok() {
            assert_eq!(applications(&target.db).await, 20);
            assert_eq!(tail(&target.ledger, usize::MAX).unwrap().len(), 20);
            std::fs::remove_dir_all(target.db.parent().unwrap()).unwrap();
        }
        assert!(!target.db.exists() && !target.ledger.exists(), "byte {place}");
    }
    for cut in [0, 100, 512, sound.len() / 2, sound.len() - 2_000] {
        std::fs::write(&archive, &sound[..cut]).unwrap();
        assert!(restore(&archive, &target).await.is_err(), "cut at {cut}");
        assert!(!target.db.exists() && !target.ledger.exists(), "cut at {cut}");
    }
    assert_eq!(std::fs::read_dir(target.db.parent().unwrap()).unwrap().count(), 0, "nothing is left behind");
}

#[tokio::test]
async fn a_ledger_of_another_key_is_not_restored() {
    let plant = Plant::new().await;
    plant.live(0, 3).await;
    let archive = plant.backup().await;
    let other = CheckpointKey::generate(KeyKind::Ed25519).unwrap().public();
    let target = RestoreTarget { key: Some(other), ..plant.elsewhere() };
    let refused = restore(&archive, &target).await.unwrap_err();
    assert!(refused.to_string().contains("belongs to another ledger or key"), "{refused}");
    assert!(!target.ledger.exists());
}

#[tokio::test]
async fn foreign_names_in_an_archive_go_nowhere() {
    let plant = Plant::new().await;
    plant.live(0, 3).await;
    let sound = plant.backup().await;
    for name in ["ledger/../escape", "../escape", "/tmp/escape", "ledger/lock"] {
        let forged = plant.folder.path().join("forged.tar");
        let mut out = tar::Builder::new(std::fs::File::create(&forged).unwrap());
        let mut from = tar::Archive::new(std::fs::File::open(&sound).unwrap());
        let mut entries = from.entries().unwrap();
        let manifest = std::io::read_to_string(entries.next().unwrap().unwrap()).unwrap();
        let forged_manifest = manifest.replacen("trapkey.db", name, 1);
        append(&mut out, "manifest.json", forged_manifest.as_bytes());
        for entry in entries {
            let mut entry = entry.unwrap();
            let old = entry.path().unwrap().to_str().unwrap().to_owned();
            let mut bytes = Vec::new();
            std::io::Read::read_to_end(&mut entry, &mut bytes).unwrap();
            append(&mut out, if old == "trapkey.db" { name } else { &old }, &bytes);
        }
        out.finish().unwrap();
        let refused = restore(&forged, &plant.elsewhere()).await.unwrap_err();
        assert!(refused.to_string().contains("does not belong in it"), "{name}: {refused}");
    }
}

/// Writes the name into the header as it is; the builder itself refuses such names.
fn append(out: &mut tar::Builder<std::fs::File>, name: &str, bytes: &[u8]) {
    let mut header = tar::Header::new_ustar();
    header.set_size(bytes.len() as u64);
    header.set_entry_type(tar::EntryType::Regular);
    let field = &mut header.as_ustar_mut().unwrap().name;
    field[..name.len()].copy_from_slice(name.as_bytes());
    header.set_cksum();
    out.append(&header, bytes).unwrap();
}
