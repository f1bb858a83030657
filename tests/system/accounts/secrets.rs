//! No password, session, link or key is in a log, or readable in the data folder.

use std::{fs, path::Path};

use thesis_proto::v1::{self, Environment, Role};

use crate::{
    admin::admin,
    harness::{Service, person::token_of, text},
};

/// Every file below a folder.
fn files(folder: &Path, found: &mut Vec<std::path::PathBuf>) {
    for entry in fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() { files(&path, found) } else { found.push(path) }
    }
}

// It has nothing to do with the store.
#[tokio::test]
async fn no_secret_is_in_a_log() {
    let mut service = Service::embedded(|setup| setup.set("SVC_LOG", "debug"));
    let mut secrets = Vec::new();
    let mut owner = service.person();
    owner.password = "a password that nobody logs".to_owned();
    let organization = owner.sign_up("Acme").await.unwrap().id;
    service.confirm(&owner.email).await;
    secrets.extend([owner.password.clone(), owner.session.clone().unwrap(), owner.device.clone().unwrap()]);
    let wrong = "a wrong password that nobody logs";
    owner.fail_to_sign_in(wrong).await;
    owner.fail_to_sign_in("short one").await;
    secrets.extend([wrong.to_owned(), "short one".to_owned()]);

    let project = owner.project(&organization, "Hive").await.id;
    let (_, raw) = owner.key(&project, Environment::Test).await;
    service.client(&raw).get("/v1/me").await.ok(200);
    secrets.push(raw);
    let mut invited = service.person();
    invited.password = "the password of who was invited".to_owned();
    let link = owner.invite(&organization, &invited.email, Role::Viewer).await;
    invited.ask().get_link(v1::GetLinkRequest { token: token_of(&link).to_owned() }).await.unwrap();
    invited.accept(token_of(&link)).await.unwrap();
    invited.accept(token_of(&link)).await.unwrap_err();
    secrets.extend([token_of(&link).to_owned(), invited.password.clone(), invited.session.clone().unwrap()]);

    let asked = v1::RequestPasswordResetRequest { email: owner.email.clone() };
    owner.ask().request_password_reset(asked).await.unwrap();
    let made = admin(&service, &["user", "reset-link", &owner.email]);
    let token = token_of(text(&made, "link"));
    owner.reset(token, "a new password that nobody logs").await.unwrap();
    secrets.extend([token.to_owned(), owner.password.clone(), owner.session.clone().unwrap()]);
    owner.change_password("a newer password that nobody logs").await.unwrap();
    secrets.extend([owner.password.clone(), owner.session.clone().unwrap()]);

    for index in 0..service.processes.len() {
        service.end(index, "TERM").await;
        let log = service.processes[index].log();
        for secret in &secrets {
            assert!(!log.contains(secret.as_str()), "{secret} is in a log");
        }
    }
    let mut kept = Vec::new();
    let data = service.dir.path().join("data");
    if data.exists() {
        files(&data, &mut kept);
    }
    for file in kept {
        let bytes = fs::read(&file).unwrap();
        let text = String::from_utf8_lossy(&bytes);
        for secret in &secrets {
            assert!(!text.contains(secret.as_str()), "{secret} is in {}", file.display());
        }
    }
}
