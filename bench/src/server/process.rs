//! The processes that a measurement is made of: servers that say where they listen, and clients that are handed a plan.

use std::error::Error;
use std::ffi::OsStr;
use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::net::{SocketAddr, TcpStream};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use serde::Serialize;
use serde::de::DeserializeOwned;

use super::calls::Call;
use crate::figures::{memory_of, time_of};

/// What goes wrong in the machinery of a measurement.
pub type Failure = Box<dyn Error>;

/// A server in a process of its own.
pub struct Served {
    child: Child,
    pub address: SocketAddr,
}

impl Served {
    /// Starts the server of a store, with these options besides.
    pub fn store(directory: &Path, options: &[&str]) -> Result<Served, Failure> {
        let binary = std::env::current_exe()?.with_file_name("unstuck");
        if !binary.is_file() {
            return Err(format!(
                "{} is not there; `cargo xtask bench server` builds it, or `cargo build --release -p unstuck`",
                binary.display()
            )
            .into());
        }
        let mut command = Command::new(binary);
        for (name, _) in std::env::vars_os() {
            if name.to_string_lossy().starts_with("UNSTUCK_") {
                command.env_remove(name);
            }
        }
        command.args(["serve", "--output", "json", "--listen", "127.0.0.1:0", "--store"]).arg(directory);
        command.args(options).current_dir(directory.parent().unwrap_or(directory));
        // It says that it stops.
        command.stderr(Stdio::null());
        Served::spawn(command)
    }

    /// Starts the server that does nothing, with documents and events of so many bytes.
    pub fn bare(document: usize, event: usize) -> Result<Served, Failure> {
        let mut command = Command::new(std::env::current_exe()?);
        command.args(["bare", &document.to_string(), &event.to_string()]);
        Served::spawn(command)
    }

    /// Starts a server whose first line is a document with its `url`.
    fn spawn(mut command: Command) -> Result<Served, Failure> {
        let mut child = command.stdout(Stdio::piped()).stdin(Stdio::null()).spawn()?;
        let mut line = String::new();
        BufReader::new(child.stdout.take().ok_or("it has no output")?).read_line(&mut line)?;
        let said: serde_json::Value =
            serde_json::from_str(&line).map_err(|error| format!("a server said `{line}`: {error}"))?;
        let address = said["url"].as_str().and_then(|url| url.strip_prefix("http://")?.parse().ok());
        Ok(Served { child, address: address.ok_or("a server did not say where it listens")? })
    }

    /// The memory that it has now, in bytes.
    pub fn memory(&self) -> u64 {
        memory_of(self.child.id())
    }

    /// The processor time that it has taken.
    pub fn processor(&self) -> Duration {
        time_of(self.child.id())
    }

    /// Makes one call, and returns the body of its answer.
    pub fn call(&self, call: &Call) -> Result<String, Failure> {
        let mut stream = TcpStream::connect(self.address)?;
        let mut bytes = call.bytes(self.address);
        let first = bytes.windows(2).position(|two| two == b"\r\n").ok_or("it is a call")?;
        bytes.splice(first..first, b"\r\nconnection: close".iter().copied());
        stream.write_all(&bytes)?;
        let mut answer = String::new();
        stream.read_to_string(&mut answer)?;
        let (head, body) = answer.split_once("\r\n\r\n").ok_or("an answer has no end of its head")?;
        if head.split(' ').nth(1).is_some_and(|status| status.starts_with('2')) {
            return Ok(body.to_owned());
        }
        Err(format!("{}: {}", call.name, body).into())
    }

    /// The same, as JSON.
    pub fn json(&self, call: &Call) -> Result<serde_json::Value, Failure> {
        Ok(serde_json::from_str(&self.call(call)?)?)
    }

    /// The value of a metric, all its labels together.
    pub fn metric(&self, name: &str) -> Result<f64, Failure> {
        let text = self.call(&Call::get("metrics", "/metrics"))?;
        let lines = text
            .lines()
            .filter(|line| line.strip_prefix(name).is_some_and(|rest| rest.starts_with(['{', ' '])));
        Ok(lines.filter_map(|line| line.rsplit(' ').next()?.parse::<f64>().ok()).sum())
    }
}

impl Drop for Served {
    /// Stops it as an operator would.
    fn drop(&mut self) {
        let _ = Command::new("kill").arg(self.child.id().to_string()).status();
        let begin = Instant::now();
        while begin.elapsed() < Duration::from_secs(30) {
            if !matches!(self.child.try_wait(), Ok(None)) {
                return;
            }
            std::thread::sleep(Duration::from_millis(10));
        }
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Starts this program in another part, and hands it a plan.
pub fn begin(part: &str, plan: &impl Serialize) -> Result<Child, Failure> {
    let mut command = Command::new(std::env::current_exe()?);
    let mut child = command.arg(part).stdin(Stdio::piped()).stdout(Stdio::piped()).spawn()?;
    let mut input = child.stdin.take().ok_or("it has no input")?;
    input.write_all(serde_json::to_string(plan)?.as_bytes())?;
    Ok(child)
}

/// Waits for its end, and reads what came of it.
pub fn end<T: DeserializeOwned>(child: Child) -> Result<T, Failure> {
    let output = child.wait_with_output()?;
    if !output.status.success() {
        return Err(format!("a part of the measurement ended with {}", output.status).into());
    }
    Ok(serde_json::from_slice(&output.stdout)?)
}

/// Carries a plan out in a process of its own.
pub fn carry_out<T: DeserializeOwned>(part: &str, plan: &impl Serialize) -> Result<T, Failure> {
    end(begin(part, plan)?)
}

/// Starts this program in another part, with arguments, and returns what it prints.
pub fn run_part(part: &str, args: &[&OsStr]) -> Result<String, Failure> {
    let output =
        Command::new(std::env::current_exe()?).arg(part).args(args).stderr(Stdio::inherit()).output()?;
    if !output.status.success() {
        return Err(format!("`{part}` ended with {}", output.status).into());
    }
    Ok(String::from_utf8(output.stdout)?)
}
