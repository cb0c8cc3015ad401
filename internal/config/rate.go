package config

import "github.com/a-seed-a7aed72f/holdfast/graph"

// Rate bounds how often the same user or address may ask; see graph.Rates.
type Rate struct {
	Key           float64 `help:"Requests per second of one user over all their keys, on average; ten seconds' worth may come at once. 0: no limit, as for all of these rates." default:"100"`
	KeyPaying     float64 `help:"Of these, requests that pay, cancel, upload, sign in or make an invite, or that call somebody else's server. Each KiB of text counts as one more." default:"20"`
	Address       float64 `help:"Requests per second without a key from one address (IPv6: one /64 network)." default:"50"`
	AddressPaying float64 `help:"Of these, requests that pay, cancel, upload or sign in. Text counts as above." default:"5"`
	WrongKeys     float64 `help:"Unknown keys per second from one address." default:"1"`
}

// Rates are those of the API.
func (r Rate) Rates() graph.Rates {
	return graph.Rates{Key: r.Key, KeyPaying: r.KeyPaying, Address: r.Address, AddressPaying: r.AddressPaying, WrongKeys: r.WrongKeys}
}

// mostRate is a rate that nobody reaches. A bucket cannot be made for a higher one, such as inf.
const mostRate = 1_000_000

func (r Rate) check(refuse func(when bool, format string, args ...any)) {
	refuse(!(min(r.Key, r.KeyPaying, r.Address, r.AddressPaying, r.WrongKeys) >= 0), "A rate cannot be negative: set HOLDFAST_RATE_… to 0 for no limit.")
	refuse(max(r.Key, r.KeyPaying, r.Address, r.AddressPaying, r.WrongKeys) > mostRate, "A rate of %d a second is too high to be meant: set HOLDFAST_RATE_… to 0 for no limit.", mostRate)
}
