//! TLS: whom commands and programs trust, certificates that are renewed, and peers that speak something else.

use std::fs::Permissions;
use std::io::{Read, Write};
use std::net::TcpStream;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::Command;

use crate::client::PATIENCE;
use crate::support::{Server, Store, wait_until};

/// A certificate for the tests.
fn pem(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/server/tls").join(name)
}

/// Puts a certificate and its key where the server looks for them.
fn install(store: &Store, name: &str) {
    for (from, to) in [(format!("{name}.pem"), "cert.pem"), (format!("{name}-key.pem"), "key.pem")] {
        // Written beside it and moved there, as who renews certificates does.
        let beside = store.folder().join("beside.pem");
        std::fs::copy(pem(&from), &beside).expect("it can be copied");
        std::fs::set_permissions(&beside, Permissions::from_mode(0o600)).expect("it is ours");
        std::fs::rename(&beside, store.folder().join(to)).expect("it can be moved");
    }
}

fn start(store: &Store) -> Server {
    install(store, "server");
    Server::start_on(store, &["--tls-cert", "cert.pem", "--tls-key", "key.pem"])
}

/// What curl prints, and how it ends.
fn curl(server: &Server, scheme: &str, arguments: &[&str]) -> (i32, String) {
    let url = format!("{scheme}://{}/health/live", server.address);
    let output = Command::new("curl")
        .args(["-sS", "--max-time", "20", "--noproxy", "*"])
        .args(arguments)
        .arg(url)
        .output()
        .expect("curl is there");
    let text = String::from_utf8_lossy(&[output.stdout, output.stderr].concat()).into_owned();
    (output.status.code().expect("it ends"), text)
}

fn ca(name: &str) -> String {
    pem(name).to_string_lossy().into_owned()
}

#[test]
fn both_versions_of_http_are_spoken_to_whoever_trusts_the_certificate() {
    let server = start(&Store::new());
    let authority = ca("authority.pem");
    for (version, wanted) in [("--http1.1", "1.1"), ("--http2", "2")] {
        let said = curl(
            &server,
            "https",
            &[version, "--cacert", &authority, "-o", "/dev/null", "-w", "%{http_version}"],
        );
        assert_eq!(said, (0, wanted.to_owned()));
    }
    let (code, said) = curl(&server, "https", &["--cacert", &ca("renewed-authority.pem")]);
    assert_eq!(code, 60, "{said}");
}

#[test]
fn commands_trust_the_authority_that_they_are_given() {
    let server = start(&Store::new());
    let elsewhere = Store::new();
    let (url, authority) = (format!("https://{}", server.address), ca("authority.pem"));
    let (code, said) = elsewhere.run(&["runs", "--server", &url, "--ca", &authority]);
    assert_eq!(code, 0, "{said}");
    let by_variable =
        elsewhere.command(&["runs", "--server", &url]).env("UNSTUCK_CA_FILE", &authority).output();
    assert!(by_variable.expect("it starts").status.success());
    let (code, said) = elsewhere.run(&["runs", "--server", &url]);
    let wanted = format!(
        "error: no secure connection to {url}: nobody who is trusted has signed its certificate. Name the file of its authority with --ca PATH or UNSTUCK_CA_FILE. Nothing was changed\n"
    );
    assert_eq!((code, said), (6, wanted));
    let (code, said) = elsewhere.run(&["runs", "--server", &url, "--ca", "nowhere.pem"]);
    assert!(code == 6 && said.contains("the authorities in nowhere.pem (--ca) cannot be used"), "{said}");
}

#[test]
fn the_doctor_says_until_when_the_certificate_is_valid() {
    let server = start(&Store::new());
    let url = format!("https://{}", server.address);
    let (code, said) = Store::new().run(&["doctor", "--server", &url, "--ca", &ca("authority.pem")]);
    assert_eq!(code, 0, "{said}");
    assert!(said.contains("the certificate of the server is valid until 2"), "{said}");
}

#[test]
fn whoever_speaks_plain_http_is_told() {
    let server = start(&Store::new());
    let said = curl(&server, "http", &["-w", " %{http_code}"]);
    assert_eq!(said, (0, "this port speaks TLS; use https:// in its address\n 400".to_owned()));
    // And whoever speaks TLS to a server without it.
    let plain = Server::start();
    let (code, said) = Store::new().run(&["runs", "--server", &format!("https://{}", plain.address)]);
    assert!(code == 6 && said.contains("it speaks no TLS; use http:// in its address"), "{said}");
}

#[test]
fn a_renewed_certificate_is_used_and_a_broken_one_is_not() {
    let store = Store::new();
    let server = start(&store);
    let (old, new) = (ca("authority.pem"), ca("renewed-authority.pem"));
    std::fs::write(store.folder().join("cert.pem"), "nothing of use").expect("it can be written");
    assert_eq!(curl(&server, "https", &["--cacert", &old]).0, 0);
    install(&store, "renewed");
    wait_until("the renewed certificate is used", || curl(&server, "https", &["--cacert", &new]).0 == 0);
    assert_eq!(curl(&server, "https", &["--cacert", &old]).0, 60);
}

#[test]
fn handshakes_that_never_end_are_given_up_and_keep_nobody_waiting() {
    let store = Store::new();
    install(&store, "server");
    let arguments = ["--tls-cert", "cert.pem", "--tls-key", "key.pem", "--tls-handshake-time", "1s"];
    let server = Server::start_on(&store, &arguments);
    let mut silent = TcpStream::connect(server.address).expect("it accepts");
    let mut slow = TcpStream::connect(server.address).expect("it accepts");
    slow.write_all(&[0x16, 0x03, 0x01]).expect("it is taken");
    assert_eq!(curl(&server, "https", &["--cacert", &ca("authority.pem")]).0, 0);
    for peer in [&mut silent, &mut slow] {
        peer.set_read_timeout(Some(PATIENCE)).expect("it can be set");
        // An end, or a reset: either way it is over.
        assert!(!matches!(peer.read(&mut [0; 64]), Ok(1..)), "it is hung up on");
    }
}

#[test]
fn files_that_cannot_be_used_are_told() {
    let store = Store::new();
    install(&store, "server");
    let serve = |cert: &str, key: &str| {
        store.run(&["serve", "--listen", "127.0.0.1:0", "--tls-cert", cert, "--tls-key", key])
    };
    let folder = store.folder();
    std::fs::write(folder.join("empty.pem"), "").expect("it can be written");
    std::fs::copy(pem("renewed-key.pem"), folder.join("other-key.pem")).expect("it can be copied");
    std::fs::set_permissions(folder.join("other-key.pem"), Permissions::from_mode(0o644))
        .expect("it is ours");
    for (cert, key, wanted) in [
        ("nowhere.pem", "key.pem", "error: cannot use nowhere.pem: there is no such file\n"),
        (
            "empty.pem",
            "key.pem",
            "error: cannot use empty.pem: there is no certificate in it. Give a PEM file that begins with the server's own\n",
        ),
        (
            "cert.pem",
            "cert.pem",
            "error: cannot use cert.pem: there is no private key in it. Give a PEM file, without a password\n",
        ),
        (
            "cert.pem",
            "other-key.pem",
            "warning: other users can read the private key other-key.pem (mode 644). Let only its owner read it: chmod 600\nerror: the private key other-key.pem is not the one of the certificate cert.pem. Give the two that were made together\n",
        ),
    ] {
        assert_eq!(serve(cert, key), (5, wanted.to_owned()), "{cert} {key}");
    }
}

#[test]
fn with_tokens_and_tls_other_machines_are_served_without_a_warning() {
    for is_encrypted in [true, false] {
        let store = Store::new();
        install(&store, "server");
        let (code, said) = store.run(&["token", "create", "boss", "--role", "admin", "-o", "json"]);
        assert_eq!(code, 0, "{said}");
        let mut arguments = vec!["--listen", "0.0.0.0:0"];
        if is_encrypted {
            arguments.extend(["--tls-cert", "cert.pem", "--tls-key", "key.pem"]);
        }
        let server = Server::start_on(&store, &arguments);
        let token = serde_json::from_str::<serde_json::Value>(&said).expect("it is JSON")["token"].clone();
        let authorization = format!("Authorization: Bearer {}", token.as_str().expect("it is a text"));
        let url = format!(
            "{}://127.0.0.1:{}/health",
            if is_encrypted { "https" } else { "http" },
            server.address.port()
        );
        let output = Command::new("curl")
            .args(["-sS", "--noproxy", "*", "--cacert", &ca("authority.pem"), "-H", &authorization, &url])
            .output()
            .expect("curl is there");
        let health: serde_json::Value = serde_json::from_slice(&output.stdout).expect("it is JSON");
        let checks = health["checks"].as_array().expect("it is a list");
        let settings = checks.iter().find(|check| check["name"] == "settings").expect("it is looked at");
        let wanted = if is_encrypted { "ok" } else { "warning" };
        assert_eq!(
            (health["status"].as_str(), settings["status"].as_str()),
            (Some("ok"), Some(wanted)),
            "{health}"
        );
        server.begin_to_stop();
        let (_, stderr) = server.wait();
        assert_eq!(stderr.contains("are not encrypted"), !is_encrypted, "{stderr}");
    }
}
