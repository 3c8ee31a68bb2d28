//! Which addresses are of servers on the internet.
//!
//! By the registries of special-purpose addresses (RFC 6890), as the standard library has them, and by plain comparison
//! where its methods are not stable.

use core::net::{IpAddr, Ipv4Addr, Ipv6Addr};

/// Where an address is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum AddressClass {
    /// On the internet.
    Public,
    /// In a private network: RFC 1918, RFC 4193, and the shared address space of RFC 6598, which overlays use.
    Private,
    /// On this machine.
    Loopback,
    /// On this link, of a group, reserved, for documents, or where clouds hand out keys.
    Special,
}

/// Where each cloud tells any process of a machine that machine's keys, apart from 169.254.0.0/16 and 192.0.0.0/24.
const METADATA_SERVICES: [IpAddr; 4] = [
    IpAddr::V4(Ipv4Addr::new(168, 63, 129, 16)),
    IpAddr::V4(Ipv4Addr::new(100, 100, 100, 200)),
    IpAddr::V6(Ipv6Addr::new(0xFD00, 0xEC2, 0, 0, 0, 0, 0, 0x254)),
    IpAddr::V6(Ipv6Addr::new(0xFD20, 0xCE, 0, 0, 0, 0, 0, 0x254)),
];

/// Where this address is.
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
            // This network, IETF protocols, relays of 6to4, benchmarks, groups, and what is reserved or broadcast.
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
        // Translated to IPv4, by NAT64 and 6to4: as public as what it is translated to.
        [0x64, 0xFF9B, 0, 0, 0, 0, high, low] | [0x2002, high, low, ..] => embedded_class(high, low),
        // IETF protocols, Teredo among them, and documents.
        [0x2001, 0..=0x1FF | 0xDB8, ..] | [0x3FFF, 0..=0xFFF, ..] => AddressClass::Special,
        // ISATAP.
        [0x2000..=0x3FFF, _, _, _, 0 | 0x200, 0x5EFE, high, low] => embedded_class(high, low),
        // What is assigned to servers on the internet: nothing beyond it is.
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
