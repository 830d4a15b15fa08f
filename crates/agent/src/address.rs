//! Addresses that an agent never dials, whatever the hub or a Service says.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

/// Why an address is never dialled; the text completes "…, which is …".
pub(crate) fn forbidden(address: IpAddr) -> Option<&'static str> {
    match address.to_canonical() {
        IpAddr::V4(address) => forbidden_v4(address),
        IpAddr::V6(address) => forbidden_v6(address),
    }
}

fn forbidden_v4(address: Ipv4Addr) -> Option<&'static str> {
    if address.is_loopback() {
        Some("a loopback address")
    } else if address.is_link_local() {
        // 169.254.169.254 and its like serve credentials of the machine.
        Some("a link-local or metadata address")
    } else if address.octets().first() == Some(&0) {
        Some("not the address of a host")
    } else if address.is_multicast() || address.is_broadcast() {
        Some("a multicast address")
    } else if METADATA_V4.contains(&address) {
        Some("a metadata address")
    } else {
        None
    }
}

fn forbidden_v6(address: Ipv6Addr) -> Option<&'static str> {
    if address.is_loopback() {
        Some("a loopback address")
    } else if address.is_unicast_link_local() {
        Some("a link-local address")
    } else if address.is_unspecified() {
        Some("not the address of a host")
    } else if address.is_multicast() {
        Some("a multicast address")
    } else if METADATA_V6.contains(&address) {
        Some("a metadata address")
    } else {
        embedded_v4(address).and_then(forbidden_v4)
    }
}

/// Alibaba Cloud's and Azure's (wire server) metadata addresses; the other clouds use link-local ones.
const METADATA_V4: [Ipv4Addr; 2] = [
    Ipv4Addr::new(100, 100, 100, 200),
    Ipv4Addr::new(168, 63, 129, 16),
];

/// AWS's and Google Cloud's metadata addresses.
const METADATA_V6: [Ipv6Addr; 2] = [
    Ipv6Addr::new(0xfd00, 0xec2, 0, 0, 0, 0, 0, 0x254),
    Ipv6Addr::new(0xfd20, 0xce, 0, 0, 0, 0, 0, 0x254),
];

/// The IPv4 address in an IPv4-compatible, NAT64 (RFC 6052) or 6to4 (RFC 3056) one: a translator on
/// the way would lead there.
fn embedded_v4(address: Ipv6Addr) -> Option<Ipv4Addr> {
    let last = |high: u16, low: u16| {
        let ([a, b], [c, d]) = (high.to_be_bytes(), low.to_be_bytes());
        Ipv4Addr::new(a, b, c, d)
    };
    match address.segments() {
        [0x64, 0xff9b, 0, 0, 0, 0, high, low] | [0, 0, 0, 0, 0, 0, high, low] => {
            Some(last(high, low))
        }
        [0x2002, high, low, ..] => Some(last(high, low)),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn what_belongs_to_the_machine_is_never_dialled() {
        for text in [
            "127.0.0.1",
            "127.255.255.254",
            "::1",
            "::ffff:127.0.0.1",
            "::127.0.0.1",
            "64:ff9b::7f00:1",
            "2002:7f00:1::",
            "169.254.169.254",
            "::ffff:169.254.169.254",
            "64:ff9b::a9fe:a9fe",
            "fe80::1",
            "fd00:ec2::254",
            "fd20:ce::254",
            "100.100.100.200",
            "168.63.129.16",
            "0.0.0.0",
            "0.1.2.3",
            "::",
            "224.0.0.1",
            "255.255.255.255",
            "ff02::1",
        ] {
            assert!(forbidden(text.parse().unwrap()).is_some(), "{text}");
        }
    }

    #[test]
    fn pods_and_services_are_dialled() {
        for text in [
            "10.244.0.7",
            "10.96.0.1",
            "192.168.1.1",
            "172.30.0.12",
            "fd12::7",
            "2001:db8::1",
        ] {
            assert_eq!(forbidden(text.parse().unwrap()), None, "{text}");
        }
    }

    proptest! {
        #[test]
        fn a_mapped_address_is_judged_as_what_it_maps(bits: u32) {
            let v4 = Ipv4Addr::from(bits);
            let mapped = IpAddr::V6(v4.to_ipv6_mapped());
            prop_assert_eq!(forbidden(mapped), forbidden(IpAddr::V4(v4)));
        }
    }
}
