//! Which addresses a service may have. Pure.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

/// Metadata services of clouds that are not link-local: Google over IPv6, Alibaba, Azure's wire
/// server, Oracle. Those of AWS have a network of their own, `fd00:ec2::/32`.
const METADATA: [IpAddr; 4] = [
    IpAddr::V6(Ipv6Addr::new(0xfd20, 0xce, 0, 0, 0, 0, 0, 0x254)),
    IpAddr::V4(Ipv4Addr::new(100, 100, 100, 200)),
    IpAddr::V4(Ipv4Addr::new(168, 63, 129, 16)),
    IpAddr::V4(Ipv4Addr::new(192, 0, 0, 192)),
];

/// Why an address is not dialled, whatever any table says; `None` when it may be. `own` are the
/// agent's pod's addresses.
pub(crate) fn forbidden(address: IpAddr, own: &[IpAddr]) -> Option<&'static str> {
    let plain_one = plain(address);
    if own.iter().any(|own| plain(*own) == plain_one) {
        return Some("it is the agent itself");
    }
    if plain_one.is_loopback() {
        return Some("it is a loopback address");
    }
    forbidden_everywhere(address, own)
}

/// The same for addresses that the member's owner wrote down: the machine's own may be meant.
pub(crate) fn forbidden_everywhere(address: IpAddr, _own: &[IpAddr]) -> Option<&'static str> {
    let address = plain(address);
    if METADATA.contains(&address) {
        return Some("it is a metadata service");
    }
    if address.is_multicast() {
        return Some("it is a multicast address");
    }
    if address.is_unspecified() {
        return Some("it is no address");
    }
    match address {
        IpAddr::V4(v4) if v4.is_link_local() => Some("it is a link-local address"),
        IpAddr::V4(v4) if v4.is_broadcast() => Some("it is a broadcast address"),
        // "This host on this network": Linux takes 0.0.0.0/8 for itself.
        IpAddr::V4(v4) if v4.octets()[0] == 0 => Some("it is no address"),
        IpAddr::V6(v6) if v6.is_unicast_link_local() => Some("it is a link-local address"),
        IpAddr::V6(v6) if v6.segments()[..2] == [0xfd00, 0xec2] => Some("it is a metadata service"),
        _ => None,
    }
}

/// The IPv4 address that an IPv6 form only wraps: mapped, compatible, NAT64, 6to4.
fn plain(address: IpAddr) -> IpAddr {
    let IpAddr::V6(v6) = address else {
        return address;
    };
    let segments = v6.segments();
    let [.., a, b] = segments;
    let v4 = |high: u16, low: u16| {
        let ([a, b], [c, d]) = (high.to_be_bytes(), low.to_be_bytes());
        IpAddr::V4(Ipv4Addr::new(a, b, c, d))
    };
    match segments {
        [0, 0, 0, 0, 0, 0xffff, ..] => v4(a, b),
        // ::1 and :: are themselves.
        [0, 0, 0, 0, 0, 0, 0, 0 | 1] => address,
        [0, 0, 0, 0, 0, 0, ..] => v4(a, b),
        // NAT64: the well-known prefix, and the one for local use (RFC 8215).
        [0x64, 0xff9b, 0, 0, 0, 0, ..] | [0x64, 0xff9b, 1, ..] => v4(a, b),
        [0x2002, high, low, ..] => v4(high, low),
        _ => address,
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn what_no_service_may_be_is_refused_in_every_form() {
        for text in [
            "127.0.0.1",
            "127.8.8.8",
            "::1",
            "0.0.0.0",
            "0.1.2.3",
            "::",
            "169.254.169.254",
            "169.254.0.1",
            "fe80::1",
            "febf::1",
            "fd00:ec2::254",
            "fd00:ec2::23",
            "fd20:ce::254",
            "64:ff9b:1::169.254.169.254",
            "100.100.100.200",
            "168.63.129.16",
            "224.0.0.1",
            "239.255.255.255",
            "ff02::1",
            "255.255.255.255",
            "::ffff:127.0.0.1",
            "::ffff:169.254.169.254",
            "::127.0.0.1",
            "64:ff9b::169.254.169.254",
            "2002:7f00:0001::",
            "2002:a9fe:a9fe::1",
            "10.0.0.9",
            "::ffff:10.0.0.9",
        ] {
            assert!(verdict(text).is_some(), "{text}");
        }
    }

    #[test]
    fn addresses_of_pods_and_nodes_are_dialled() {
        for text in [
            "10.244.0.7",
            "192.168.1.1",
            "172.30.0.11",
            "100.64.0.1",
            "8.8.8.8",
            "fd00::7",
            "2001:db8::1",
            "64:ff9b::8.8.8.8",
        ] {
            assert_eq!(verdict(text), None, "{text}");
        }
    }

    proptest! {
        #[test]
        fn a_wrapped_address_is_judged_like_the_bare_one(bits: u32) {
            let v4 = Ipv4Addr::from_bits(bits);
            let own = [IpAddr::V4(Ipv4Addr::new(10, 0, 0, 9))];
            let bare = forbidden(v4.into(), &own);
            prop_assert_eq!(forbidden(v4.to_ipv6_mapped().into(), &own), bare);
        }
    }

    fn verdict(text: &str) -> Option<&'static str> {
        let own = [IpAddr::V4(Ipv4Addr::new(10, 0, 0, 9))];
        forbidden(text.parse().unwrap(), &own)
    }
}
