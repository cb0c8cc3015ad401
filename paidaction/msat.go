package paidaction

import (
	"errors"
	"fmt"
	"strconv"
)

// Msat is an amount of money in millisatoshi. All arithmetic inside Holdfast is done in Msat; whole satoshi exist only
// at the edges.
type Msat int64

// MaxMsat is the largest amount Holdfast handles: all bitcoin there will ever be. Sums of a few such amounts still fit
// an int64, so a checked amount can be added without a second check.
const MaxMsat Msat = 21_000_000 * 100_000_000 * 1000

// Sats turns whole satoshi into Msat. It refuses a negative amount and one above MaxMsat with INVALID_AMOUNT, so that
// no multiplication overflows (spec 05.7).
func Sats(sats int64) (Msat, error) {
	if sats < 0 {
		return 0, Errorf(CodeInvalidAmount, "The amount cannot be negative.")
	}
	if sats > int64(MaxMsat)/1000 {
		return 0, Errorf(CodeInvalidAmount, "The amount is larger than all the bitcoin there is.")
	}
	return Msat(sats * 1000), nil
}

// Sats is the number of whole satoshi in m, rounded down.
func (m Msat) Sats() int64 { return int64(m) / 1000 }

// CeilSats is the number of whole satoshi needed to hold m, rounded up.
func (m Msat) CeilSats() int64 { return (int64(m) + 999) / 1000 }

// Percent is floor(m × pct ÷ 100). m must not be negative and pct must lie between 0 and 100, so that a share never
// exceeds the whole.
func (m Msat) Percent(pct int) Msat {
	if m < 0 || pct < 0 || pct > 100 {
		panic(fmt.Sprintf("paidaction: %d%% of %d msat", pct, m))
	}
	// Split so that the product cannot overflow.
	whole, rest := int64(m)/100, int64(m)%100
	return Msat(whole*int64(pct) + rest*int64(pct)/100)
}

// Times is m × factor, or INVALID_AMOUNT where the product is above MaxMsat.
func (m Msat) Times(factor int64) (Msat, error) {
	if m < 0 || factor < 0 {
		return 0, Errorf(CodeInvalidAmount, "The amount cannot be negative.")
	}
	if factor != 0 && int64(m) > int64(MaxMsat)/factor {
		return 0, Errorf(CodeInvalidAmount, "The amount is larger than all the bitcoin there is.")
	}
	return m * Msat(factor), nil
}

// String is the decimal number of millisatoshi, as it crosses the wire (spec 00 §0.3).
func (m Msat) String() string { return strconv.FormatInt(int64(m), 10) }

// ParseMsat reads what String writes: digits only, no sign, no fraction.
func ParseMsat(s string) (Msat, error) {
	n, err := strconv.ParseUint(s, 10, 63)
	switch {
	case errors.Is(err, strconv.ErrRange), err == nil && Msat(n) > MaxMsat:
		return 0, Errorf(CodeInvalidAmount, "The amount is larger than all the bitcoin there is.")
	case err != nil:
		return 0, Errorf(CodeInvalidAmount, "An amount in millisatoshis is a whole number, written in digits only.")
	}
	return Msat(n), nil
}
