package outside

import (
	"fmt"
	"net/netip"
	"syscall"
)

// IPv4 addresses that are not one machine of the public internet (IANA's registry of special addresses), and one that
// is, but must not be reached either.
var special4 = prefixes("0.0.0.0/8", "10.0.0.0/8", "100.64.0.0/10", "127.0.0.0/8", "169.254.0.0/16", "172.16.0.0/12", "192.0.0.0/24",
	"192.0.2.0/24", "192.88.99.0/24", "192.168.0.0/16", "198.18.0.0/15", "198.51.100.0/24", "203.0.113.0/24", "224.0.0.0/4", "240.0.0.0/4",
	"168.63.129.16/32") // Azure's metadata

// Of IPv6 only global unicast is public, except the protocol assignments (Teredo among them) and the addresses for
// documentation.
var (
	global6  = netip.MustParsePrefix("2000::/3")
	special6 = prefixes("2001::/23", "2001:db8::/32", "3fff::/20")
)

// IPv6 addresses that contain an IPv4 address and lead to it.
var (
	nat64     = netip.MustParsePrefix("64:ff9b::/96")
	sixToFour = netip.MustParsePrefix("2002::/16")
)

func prefixes(texts ...string) []netip.Prefix {
	all := make([]netip.Prefix, len(texts))
	for i, text := range texts {
		all[i] = netip.MustParsePrefix(text)
	}
	return all
}

// public reports whether an address belongs to the public internet. Private, loopback, link-local, shared, multicast
// and unspecified addresses do not, nor IPv6 addresses that lead to one of these.
func public(a netip.Addr) bool {
	a = a.Unmap().WithZone("") // no prefix contains an address with a zone
	in := func(all []netip.Prefix) bool {
		for _, p := range all {
			if p.Contains(a) {
				return true
			}
		}
		return false
	}
	if a.Is4() {
		return !in(special4)
	}
	bytes := a.As16()
	switch {
	case nat64.Contains(a):
		return public(netip.AddrFrom4([4]byte(bytes[12:])))
	case sixToFour.Contains(a):
		return public(netip.AddrFrom4([4]byte(bytes[2:6])))
	}
	return global6.Contains(a) && !in(special6)
}

// guard is called by the dialer with the very address that it is about to connect to. Checking the name, or an earlier
// answer of the DNS, would be useless: the next answer may differ (DNS rebinding).
func (c *Client) guard(network, address string, _ syscall.RawConn) error {
	at, err := netip.ParseAddrPort(address)
	if err != nil {
		return fmt.Errorf("%w: %s %s", ErrForbidden, network, address)
	}
	if c.AllowPrivate || public(at.Addr()) || c.permitted[at] {
		return nil
	}
	return ErrForbidden
}
