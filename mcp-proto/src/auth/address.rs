//! Classification of IP addresses: public, private, loopback, or special.
//!
//! It follows the special-purpose address registries (RFC 6890) as implemented by the standard library, and compares
//! plainly where the library's methods are not stable.

use core::net::{IpAddr, Ipv4Addr, Ipv6Addr};

/// The class of an IP address.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum AddressClass {
    /// A public internet address.
    Public,
    /// A private network: RFC 1918, RFC 4193, and the shared address space of RFC 6598, which overlay networks use.
    Private,
    /// This machine.
    Loopback,
    /// Link-local, multicast, reserved, documentation, or a cloud metadata service.
    Special,
}

/// Cloud metadata services outside of 169.254.0.0/16 and 192.0.0.0/24. They hand credentials to any process of a
/// machine.
const METADATA_SERVICES: [IpAddr; 4] = [
    IpAddr::V4(Ipv4Addr::new(168, 63, 129, 16)),
    IpAddr::V4(Ipv4Addr::new(100, 100, 100, 200)),
    IpAddr::V6(Ipv6Addr::new(0xFD00, 0xEC2, 0, 0, 0, 0, 0, 0x254)),
    IpAddr::V6(Ipv6Addr::new(0xFD20, 0xCE, 0, 0, 0, 0, 0, 0x254)),
];

/// Classifies an address.
pub(crate) fn address_class(address: IpAddr) -> AddressClass {
    if METADATA_SERVICES.contains(&address) {
        return AddressClass::Special;
    }
    match address {
        IpAddr::V4(address) => address_class_v4(address),
        IpAddr::V6(address) => address_class_v6(address),
    }
}

fn address_class_v4(address: Ipv4Addr) -> AddressClass {
    let special = address.is_link_local()
        || address.is_documentation()
        || matches!(
            address.octets(),
            // "This" network, IETF protocols, 6to4 relays, benchmarks, multicast, reserved and broadcast.
            [0, ..] | [192, 0, 0, _] | [192, 88, 99, _] | [198, 18 | 19, ..] | [224..=255, ..]
        );
    if special {
        AddressClass::Special
    } else if address.is_loopback() {
        AddressClass::Loopback
    } else if address.is_private() || matches!(address.octets(), [100, 64..=127, ..]) {
        AddressClass::Private
    } else {
        AddressClass::Public
    }
}

fn address_class_v6(address: Ipv6Addr) -> AddressClass {
    if let Some(mapped) = address.to_ipv4_mapped() {
        return address_class(mapped.into());
    }
    if address.is_loopback() {
        return AddressClass::Loopback;
    }
    if address.is_unique_local() {
        return AddressClass::Private;
    }
    match address.segments() {
        // NAT64 and 6to4 addresses are translated to IPv4, so the embedded address determines the class.
        [0x64, 0xFF9B, 0, 0, 0, 0, high, low] | [0x2002, high, low, ..] => embedded_class(high, low),
        // IETF protocols, such as Teredo, and documentation.
        [0x2001, 0..=0x1FF | 0xDB8, ..] | [0x3FFF, 0..=0xFFF, ..] => AddressClass::Special,
        // ISATAP addresses embed an IPv4 address.
        [0x2000..=0x3FFF, _, _, _, 0 | 0x200, 0x5EFE, high, low] => embedded_class(high, low),
        // Global unicast: no internet server has an address outside of it.
        [0x2000..=0x3FFF, ..] => AddressClass::Public,
        _ => AddressClass::Special,
    }
}

fn embedded_class(high: u16, low: u16) -> AddressClass {
    let ([a, b], [c, d]) = (high.to_be_bytes(), low.to_be_bytes());
    match address_class(Ipv4Addr::new(a, b, c, d).into()) {
        AddressClass::Public => AddressClass::Public,
        _ => AddressClass::Special,
    }
}
