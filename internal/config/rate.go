package config

import "github.com/a-seed-a7aed72f/holdfast/graph"

// Rate bounds how often the same one may ask; see graph.Rates.
type Rate struct {
	Key           float64 `help:"Requests a second of one user, whatever their keys, on average; ten seconds' worth may come at once. 0: no bound; so with all of these." default:"100"`
	KeyPaying     float64 `help:"Of those, what costs money or calls somebody else's server." default:"20"`
	Address       float64 `help:"Requests a second without a key from one address (IPv6: one /64 network)." default:"50"`
	AddressPaying float64 `help:"Of those, what costs money." default:"5"`
	WrongKeys     float64 `help:"Keys a second from one address that are not known." default:"1"`
}

// Rates are those of the API.
func (r Rate) Rates() graph.Rates {
	return graph.Rates{Key: r.Key, KeyPaying: r.KeyPaying, Address: r.Address, AddressPaying: r.AddressPaying, WrongKeys: r.WrongKeys}
}

// mostRate is what nobody reaches. Of more, such as inf, no bucket can be made.
const mostRate = 1_000_000

func (r Rate) check(refuse func(when bool, format string, args ...any)) {
	refuse(!(min(r.Key, r.KeyPaying, r.Address, r.AddressPaying, r.WrongKeys) >= 0), "A rate cannot be below zero: set HOLDFAST_RATE_… to 0 for no bound.")
	refuse(max(r.Key, r.KeyPaying, r.Address, r.AddressPaying, r.WrongKeys) > mostRate, "Nobody asks %d times a second: set HOLDFAST_RATE_… to 0 for no bound.", mostRate)
}
