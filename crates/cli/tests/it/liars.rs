//! What `trapkey cost watch` is shown is not trusted: who lies, is silent, never ends or writes to the terminal is named and bounded, and
//! who else is watched is watched all the same.

use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};
use std::time::Duration;

use super::Scene;

/// Answers each request in this way.
fn program(answer: impl Fn(&mut TcpStream) -> std::io::Result<()> + Send + 'static) -> String {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let url = format!("http://{}", listener.local_addr().unwrap());
    std::thread::spawn(move || {
        for mut stream in listener.incoming().map_while(Result::ok) {
            let _asked = stream.read(&mut [0; 4_096]);
            let _gone = answer(&mut stream);
        }
    });
    url
}

/// Figures with one stage, which was used ten times more at each look.
fn figures(listener: &str, look: u64) -> String {
    let name = "trapkey_upstream_latency_seconds";
    let (of, count) = (format!("listener=\"{listener}\""), 10 * look);
    // No two batches are quite alike.
    let seconds: f64 = (0..look).map(|nth| 1e-5 * (990 + nth % 4 * 7) as f64).sum();
    format!(
        "# TYPE trapkey_build info\ntrapkey_build_info{{version=\"1\"}} 1\n# TYPE {name} histogram\n{name}_sum{{{of}}} {seconds}\n\
         {name}_count{{{of}}} {count}\n{name}_bucket{{{of},le=\"+Inf\"}} {count}\n# EOF\n"
    )
}

fn whole(body: &str) -> String {
    format!("HTTP/1.1 200 OK\r\nContent-Length: {}\r\nConnection: close\r\n\r\n{body}", body.len())
}

/// Says one text again and again.
fn saying(text: String) -> String {
    program(move |stream| stream.write_all(text.as_bytes()))
}

#[test]
fn who_lies_is_out_of_reach_and_moves_no_cursor() {
    let scene = Scene::empty();
    let good = figures("gate", 1);
    let cut = format!("HTTP/1.1 200 OK\r\nContent-Length: {}\r\n\r\n{}", good.len(), &good[..good.len() / 2]);
    let half = good.rsplit_once(' ').unwrap().0.rsplit_once(' ').unwrap().0;
    for (rule, url, said) in [
        ("it ends in a line", saying(cut), ""),
        ("it ends in a line, and says that this is all", saying(whole(half)), "the end is not marked"),
        ("a page of the web", saying(whole("<html></html>")), "the end is not marked"),
        ("it is nothing", saying(String::new()), ""),
        ("it is no HTTP", saying("SSH-2.0-\x1b[2Jnone\r\n".into()), ""),
        ("another place", saying("HTTP/1.1 302 Found\r\nLocation: http://127.0.0.1:1/\r\n\r\n".into()), "302"),
        ("a reason that clears the screen", saying("HTTP/1.1 404 \x1b[2JNone\r\n\r\n".into()), ""),
        ("a name that clears the screen", saying(whole(&figures("\x1b[2J\x1b]0;mine\x07", 1))), "control characters"),
        ("a name of two lines", saying(whole(&figures("gate\\nALARM", 1))), "control characters"),
        (
            "a sum that is no number",
            saying(whole(&good.replace("_sum{listener=\"gate\"} 0", "_sum{listener=\"gate\"} NaN\nx 0"))),
            "no number",
        ),
        (
            "a sum that no bucket holds",
            saying(whole(&good.replace(
                "le=\"+Inf\"} 10",
                "le=\"0.0001\"} 10\ntrapkey_upstream_latency_seconds_bucket{listener=\"gate\",le=\"+Inf\"} 10",
            ))),
            "does not add up",
        ),
        (
            "bytes that are no text",
            program(|stream| stream.write_all(b"HTTP/1.1 200 OK\r\nContent-Length: 1\r\n\r\n\xff")),
            "no text",
        ),
        (
            "it never ends",
            program(|stream| {
                stream.write_all(b"HTTP/1.1 200 OK\r\n\r\n")?;
                let line = "# HELP a b\n".repeat(1_000);
                loop {
                    stream.write_all(line.as_bytes())?;
                }
            }),
            "length limit",
        ),
        (
            "its head never ends",
            program(|stream| {
                stream.write_all(b"HTTP/1.1 200 OK\r\n")?;
                loop {
                    stream.write_all(b"a: bbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbb\r\n")?;
                }
            }),
            "",
        ),
    ] {
        let answer = scene.run(&["cost", "watch", &url, "--interval", "200ms", "--for", "1s"]);
        assert!(answer.starts_with("exit 3") && answer.contains("out of reach"), "{rule}: {answer:?}");
        assert!(answer.contains(said), "{rule}: {answer:?}");
        assert!(answer.len() < 2_000, "{rule}: it is said once: {answer:?}");
        let moves = answer.chars().find(|letter| letter.is_control() && *letter != '\n');
        assert_eq!(moves, None, "{rule}: {answer:?}");
    }
}

#[test]
fn who_is_silent_does_not_keep_others_from_being_watched() {
    let scene = Scene::empty();
    let silent = program(|stream| {
        let mut more = [0];
        while stream.read(&mut more)? > 0 {}
        Ok(())
    });
    let drips = program(|stream| {
        stream.write_all(b"HTTP/1.1 200 OK\r\n\r\n")?;
        loop {
            stream.write_all(b"#")?;
            std::thread::sleep(Duration::from_millis(100));
        }
    });
    let looks = std::sync::atomic::AtomicU64::new(0);
    let good = program(move |stream| {
        let look = looks.fetch_add(1, std::sync::atomic::Ordering::AcqRel) + 1;
        stream.write_all(whole(&figures("gate", look)).as_bytes())
    });
    let watched =
        scene.run(&["cost", "watch", &silent, &good, &drips, "--interval", "100ms", "--learn", "1s", "--for", "8s"]);
    assert!(watched.starts_with("exit 3"), "{watched}");
    assert!(watched.contains(&format!("{good} gate upstream: learned")), "{watched}");
}
