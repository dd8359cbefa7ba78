//! The table of all settings of a server: flags, variables, keys of files, the printed configuration and its page come from it.

use crate::configuration::setting::DefaultValue::{Is, Unset};
use crate::configuration::setting::Kind::{Address, Flag, Networks, Number, OneOf, Path, Size, Text, Time};
use crate::configuration::setting::Setting;

const KIB: u64 = 1 << 10;
const MIB: u64 = 1 << 20;
const GIB: u64 = 1 << 30;
const SECOND: u64 = 1_000;
const HOUR: u64 = 3_600 * SECOND;
const MILLION: u64 = 1_000_000;

/// Defines settings, and the table of all of them in this order.
macro_rules! settings {
    ($($name:ident = $setting:expr;)*) => {
        $(pub(crate) static $name: Setting = $setting;)*
        /// Every setting.
        pub(crate) static SETTINGS: &[&Setting] = &[$(&$name),*];
    };
}

settings! {
    LISTEN = Setting::new("listen", Address, Is("127.0.0.1:7070"), "The address to listen on; port 0 takes a free one.");
    STORE = Setting::new("store", Path, Unset("`unstuck` in the folder for user data"), "The folder of the store.");
    COPIES = Setting::new("copies", Path, Unset("copies are refused"), "The folder in which `POST /v1/store/copies` makes copies of the store.");
    NAME = Setting::new("name", Text, Unset("the name of the machine"), "The name of this server, for people.");
    ALLOW_RUN = Setting::new("allowRun", Flag, Is("false"), "Execute `run:` steps, which are commands of this machine. Whoever may apply flows can then execute anything as this user.");
    MAX_LOAD = Setting::new("maxLoad", Number(1, MILLION), Unset("twice the cores, at least 4"), "The total load that local processes may take at once; needs `allowRun`.");
    SECRETS = Setting::new("secrets", Path, Unset("variables `UNSTUCK_SECRET_<NAME>` only"), "A folder of secrets, one file each, for `${secrets.NAME}`.");
    ALLOW_ADDRESS = Setting::new("allowAddress", Networks, Is(""), "Let `http:` steps call these addresses or networks too; otherwise they call public addresses only.");
    LOG = Setting::new("log", Text, Is("warn"), "What is logged on stderr: a level (off, error, warn, info, debug, trace), or levels of parts such as `warn,unstuck_server=debug`.");
    LOG_FORMAT = Setting::new("logFormat", OneOf(&["text", "json"]), Is("text"), "How a line of the log is written.");
    TLS_CERT = Setting::new("tls.cert", Path, Unset("no TLS"), "The certificate and its chain (PEM). With `tls.key`, the server speaks TLS and nothing else.");
    TLS_KEY = Setting::new("tls.key", Path, Unset("no TLS"), "The private key of the certificate (PEM).");
    TLS_HANDSHAKE_TIME = Setting::new("tls.handshakeTime", Time(100, HOUR), Is("10s"), "A TLS handshake must be done within this time.");
    REQUESTS_RATE = Setting::new("rates.requests", Number(0, MILLION), Is("0"), "Requests a second that one token may make, on average; 0 is no limit.");
    REQUESTS_BURST = Setting::new("rates.burst", Number(1, MILLION), Is("100"), "Requests that a token may make at once before its rate counts.");
    REQUIRE_REASON = Setting::new("audit.requireReason", Flag, Is("false"), "Refuse changes by people that give no reason.");
    METRICS_LABELS = Setting::new("metrics.labels", Number(1, 100_000), Is("200"), "Values of one label of a metric; what comes after them is counted as `other`.");
    TRACES_ENDPOINT = Setting::new("traces.endpoint", Text, Unset("no traces"), "Send traces of requests, runs and attempts to this collector, by OTLP over HTTP, such as `http://127.0.0.1:4318`.");
    TRACES_PERCENT = Setting::new("traces.percent", Number(0, 100), Is("100"), "Of a hundred traces that begin here, so many are sent; whoever calls with `traceparent` decides about its own.");
    BODY = Setting::new("limits.body", Size(KIB, GIB), Is("4 MiB"), "The size of a request's body.");
    FLOW_FILE = Setting::new("limits.flowFile", Size(KIB, GIB), Is("1 MiB"), "The size of a flow file.");
    HEAD = Setting::new("limits.head", Size(8 * KIB, MIB), Is("16 KiB"), "The size of a request's headers.");
    JSON_DEPTH = Setting::new("limits.jsonDepth", Number(4, 1_000), Is("64"), "How deep JSON may be nested.");
    ITEMS = Setting::new("limits.items", Number(1, 100_000), Is("1000"), "Items in one request.");
    BODIES = Setting::new("limits.bodies", Size(MIB, 1024 * GIB), Is("256 MiB"), "The size of all bodies in memory at once.");
    BODY_TIME = Setting::new("limits.bodyTime", Time(100, HOUR), Is("30s"), "A body must have arrived within this time.");
    IDLE_TIME = Setting::new("limits.idleTime", Time(100, 24 * HOUR), Is("1m 15s"), "A connection without a request is closed after this time.");
    STALL_TIME = Setting::new("limits.stallTime", Time(100, HOUR), Is("1m"), "A connection whose peer takes nothing of an answer is closed after this time.");
    CONNECTIONS = Setting::new("limits.connections", Number(1, MILLION), Is("10000"), "Connections at once; others wait to be accepted.");
    QUERIES = Setting::new("limits.queries", Number(1, 10_000), Is("16"), "Reads that are answered at once; others wait their turn.");
    CHANGES = Setting::new("limits.changes", Number(1, 10_000), Is("64"), "Changes by people that are carried out at once; others wait their turn.");
    TURN_TIME = Setting::new("limits.turnTime", Time(100, HOUR), Is("5s"), "A request waits this long for its turn before it is refused (503 `overloaded`).");
    STREAMS = Setting::new("limits.streams", Number(0, MILLION), Is("1000"), "Event streams at once.");
    LONGEST_WAIT = Setting::new("limits.longestWait", Time(100, HOUR), Is("1m"), "The longest that `wait` of a request waits.");
}
