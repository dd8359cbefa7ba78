//! Which addresses requests may go to: a flow that anybody wrote must not reach what only this machine or its network should.

use std::fmt;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

/// What an address is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum AddressKind {
    Public,
    /// This machine.
    Loopback,
    /// Of a network that is not the internet.
    Private,
    /// Of this cable: where clouds tell a machine its credentials.
    LinkLocal,
    /// No single machine.
    Multicast,
    /// `0.0.0.0` and `::`.
    Unspecified,
    /// For documentation, for tests, for later.
    Reserved,
}

impl AddressKind {
    /// What an address is. One that carries an IPv4 address in it is what that is.
    pub fn of(address: IpAddr) -> AddressKind {
        match address {
            IpAddr::V4(address) => of_v4(address),
            IpAddr::V6(address) => of_v6(address),
        }
    }

    fn phrase(self) -> &'static str {
        match self {
            AddressKind::Public => "a public address",
            AddressKind::Loopback => "an address of this machine",
            AddressKind::Private => "a private address",
            AddressKind::LinkLocal => "a link-local address",
            AddressKind::Multicast => "a multicast address",
            AddressKind::Unspecified => "an unspecified address",
            AddressKind::Reserved => "a reserved address",
        }
    }
}

impl fmt::Display for AddressKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.phrase())
    }
}

fn of_v4(address: Ipv4Addr) -> AddressKind {
    match address.octets() {
        [0, 0, 0, 0] => AddressKind::Unspecified,
        [127, ..] => AddressKind::Loopback,
        // Private use (RFC 1918), and what carriers share (RFC 6598).
        [10, ..] | [172, 16..=31, ..] | [192, 168, ..] | [100, 64..=127, ..] => AddressKind::Private,
        [169, 254, ..] => AddressKind::LinkLocal,
        [224..=239, ..] => AddressKind::Multicast,
        [0 | 240..=255, ..]
        | [192, 0, 0 | 2, _]
        | [192, 88, 99, _]
        | [198, 18..=19, ..]
        | [198, 51, 100, _]
        | [203, 0, 113, _] => AddressKind::Reserved,
        _ => AddressKind::Public,
    }
}

fn of_v6(address: Ipv6Addr) -> AddressKind {
    let low = |high: u16, low: u16| {
        let ([a, b], [c, d]) = (high.to_be_bytes(), low.to_be_bytes());
        of_v4(Ipv4Addr::new(a, b, c, d))
    };
    match address.segments() {
        [0, 0, 0, 0, 0, 0, 0, 0] => AddressKind::Unspecified,
        [0, 0, 0, 0, 0, 0, 0, 1] => AddressKind::Loopback,
        // Mapped (RFC 4291), compatible (RFC 4291), translated (RFC 2765, RFC 6052) and 6to4 (RFC 3056).
        [0, 0, 0, 0, 0, 0xffff | 0, high, last] => low(high, last),
        [0, 0, 0, 0, 0xffff, 0, high, last] => low(high, last),
        [0x64, 0xff9b, 0, 0, 0, 0, high, last] => low(high, last),
        [0x2002, high, last, ..] => low(high, last),
        [0xfc00..=0xfdff, ..] | [0x64, 0xff9b, 1, ..] => AddressKind::Private,
        // Site-local is what private addresses were before.
        [0xfec0..=0xfeff, ..] => AddressKind::Private,
        [0xfe80..=0xfebf, ..] => AddressKind::LinkLocal,
        [0xff00..=0xffff, ..] => AddressKind::Multicast,
        // Teredo and other protocols (RFC 2928), documentation.
        [0x2001, 0..=0x1ff | 0xdb8, ..] | [0x3fff, 0..=0xfff, ..] => AddressKind::Reserved,
        // All that was ever given to anybody is here.
        [0x2000..=0x3fff, ..] => AddressKind::Public,
        _ => AddressKind::Reserved,
    }
}

/// A network, such as `10.0.0.0/8`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Network {
    address: IpAddr,
    bits: u8,
}

impl Network {
    /// Parses a network or a single address.
    pub fn parse(text: &str) -> Result<Network, String> {
        let wrong = || format!("`{text}` is not a network: write for example `10.0.0.0/8` or `127.0.0.1`");
        let (address, bits) = match text.split_once('/') {
            Some((address, bits)) => (address, Some(bits.parse::<u8>().map_err(|_| wrong())?)),
            None => (text, None),
        };
        let address: IpAddr = address.parse().map_err(|_| wrong())?;
        let most = if address.is_ipv4() { 32 } else { 128 };
        let bits = bits.unwrap_or(most);
        if bits > most { Err(wrong()) } else { Ok(Network { address, bits }) }
    }

    fn contains(&self, address: IpAddr) -> bool {
        match (self.address, address.to_canonical()) {
            (IpAddr::V4(network), IpAddr::V4(address)) => {
                same_bits(u128::from(network.to_bits()), u128::from(address.to_bits()), 32 - self.bits)
            }
            (IpAddr::V6(network), IpAddr::V6(address)) => {
                same_bits(network.to_bits(), address.to_bits(), 128 - self.bits)
            }
            (IpAddr::V4(_), IpAddr::V6(_)) | (IpAddr::V6(_), IpAddr::V4(_)) => false,
        }
    }
}

/// Whether two numbers are the same but for their last `free` bits.
fn same_bits(a: u128, b: u128, free: u8) -> bool {
    (a ^ b).checked_shr(u32::from(free)).unwrap_or(0) == 0
}

/// Which addresses requests may go to, besides public ones.
#[derive(Clone, Debug, Default)]
pub struct AddressRules {
    /// Those of this machine and of private networks, link-local ones included.
    pub allow_private: bool,
    /// These too, whatever they are.
    pub allowed: Vec<Network>,
}

impl AddressRules {
    /// Whether a request may go there; else what is there.
    pub fn check(&self, address: IpAddr) -> Result<(), AddressKind> {
        let kind = AddressKind::of(address);
        let is_allowed = match kind {
            AddressKind::Public => true,
            AddressKind::Loopback | AddressKind::Private | AddressKind::LinkLocal => self.allow_private,
            AddressKind::Multicast | AddressKind::Unspecified | AddressKind::Reserved => false,
        };
        if is_allowed || self.allowed.iter().any(|network| network.contains(address)) {
            return Ok(());
        }
        Err(kind)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_address_is_of_one_kind() {
        use AddressKind::{LinkLocal, Loopback, Multicast, Private, Public, Reserved, Unspecified};
        let cases: [(AddressKind, &[&str]); 7] = [
            (
                Public,
                &["8.8.8.8", "93.184.216.34", "100.63.255.255", "100.128.0.0", "172.15.0.1", "172.32.0.1"],
            ),
            (
                Public,
                &["2606:4700::1111", "2a00::1", "::ffff:8.8.8.8", "64:ff9b::808:808", "2002:808:808::1"],
            ),
            (
                Loopback,
                &[
                    "127.0.0.1",
                    "127.255.255.254",
                    "::1",
                    "::ffff:127.0.0.1",
                    "::127.0.0.1",
                    "64:ff9b::7f00:1",
                ],
            ),
            (
                Private,
                &[
                    "10.0.0.1",
                    "172.16.0.1",
                    "172.31.255.255",
                    "192.168.1.1",
                    "100.64.0.1",
                    "fd00::1",
                    "fc00::1",
                    "fec0::1",
                    "::ffff:10.0.0.1",
                    "2002:a00:1::1",
                    "64:ff9b:1::1",
                    "::ffff:0:10.0.0.1",
                ],
            ),
            (LinkLocal, &["169.254.169.254", "fe80::1", "febf::1", "::ffff:169.254.169.254"]),
            (Multicast, &["224.0.0.1", "239.255.255.255", "ff02::1"]),
            (Unspecified, &["0.0.0.0", "::", "::ffff:0.0.0.0"]),
        ];
        for (kind, addresses) in cases {
            for address in addresses {
                assert_eq!(AddressKind::of(address.parse().expect(address)), kind, "{address}");
            }
        }
        for address in [
            "0.1.2.3",
            "192.0.0.1",
            "192.0.2.1",
            "192.88.99.1",
            "198.18.0.1",
            "198.51.100.1",
            "203.0.113.1",
            "240.0.0.1",
            "255.255.255.255",
            "2001::1",
            "2001:db8::1",
            "100::1",
            "3fff::1",
            "4000::1",
            "5f00::1",
        ] {
            assert_eq!(AddressKind::of(address.parse().expect(address)), Reserved, "{address}");
        }
    }

    #[test]
    fn what_is_not_public_must_be_allowed() {
        let network = |text: &str| Network::parse(text).expect(text);
        let strict = AddressRules::default();
        let own = AddressRules { allow_private: true, allowed: Vec::new() };
        let listed = AddressRules {
            allow_private: false,
            allowed: vec![
                network("10.1.0.0/16"),
                network("fd00::/8"),
                network("127.0.0.1"),
                network("192.0.2.0/24"),
            ],
        };
        let cases = [
            ("8.8.8.8", [true, true, true]),
            ("127.0.0.1", [false, true, true]),
            ("127.0.0.2", [false, true, false]),
            ("10.1.2.3", [false, true, true]),
            ("::ffff:10.1.2.3", [false, true, true]),
            ("10.2.0.1", [false, true, false]),
            ("169.254.169.254", [false, true, false]),
            ("fd12::1", [false, true, true]),
            ("0.0.0.0", [false, false, false]),
            ("224.0.0.1", [false, false, false]),
            ("192.0.2.7", [false, false, true]),
        ];
        for (address, expected) in cases {
            let address: IpAddr = address.parse().expect(address);
            assert_eq!(
                [&strict, &own, &listed].map(|rules| rules.check(address).is_ok()),
                expected,
                "{address}"
            );
        }
        assert!(network("0.0.0.0/0").contains("1.2.3.4".parse().expect("an address")));
        for wrong in ["", "10.0.0.0/33", "::/129", "10.0.0", "10.0.0.0/x", "host"] {
            assert!(Network::parse(wrong).is_err(), "{wrong}");
        }
    }
}
