// Package ledger keeps the money in double entry: a posting is one transfer between two accounts of the same asset, so
// it is always balanced. Rows are appended, never changed; a user's balance never goes below zero. Post books what one
// action books, in the transaction of the caller.
package ledger

import "fmt"

// Asset is what an account holds. Both assets are counted in millisatoshi and never added up: credits are spendable
// only here, sats can be withdrawn. Sats can become credits; credits never become sats.
type Asset int64

// The assets, as encoded in the lowest bit of an account's number.
const (
	Sats    Asset = 0
	Credits Asset = 1
)

func (a Asset) String() string {
	if a == Credits {
		return "credits"
	}
	return "sats"
}

// Account is the number of an account: owner × 16 + kind. The number itself says whose account it is and what it holds,
// so a transfer needs no look-up.
type Account int64

const kinds = 16

// The system's accounts. Those that stand for something outside Holdfast go below zero: money that arrives over
// Lightning is a transfer from Lightning, money that leaves is a transfer to it.
const (
	Lightning     Account = 0  // sats: money at our nodes; its negative is what they hold for us
	IssuedCredits Account = 1  // credits: its negative is the credits in circulation
	BackingSats   Account = 2  // sats: what was paid for the credits in circulation; always equal to them
	RewardCredits Account = 3  // credits: the part of the rewards pool that was paid in credits
	RewardSats    Account = 4  // sats: the part of the rewards pool that was paid in sats
	ClearCredits  Account = 5  // credits: clearing for people who pay themselves (a founder in their own territory)
	RoutingSats   Account = 6  // sats: set aside for payments that leave, and for their routing fees
	LossSats      Account = 8  // sats: losses, booked rather than hidden (spec 01 §1.2)
	ClearSats     Account = 10 // sats: as ClearCredits
)

// System returns all of them.
func System() []Account {
	return []Account{Lightning, IssuedCredits, BackingSats, RewardCredits, RewardSats, ClearCredits, RoutingSats, LossSats, ClearSats}
}

// UserSats is the account of a user's withdrawable sats.
func UserSats(user int64) Account { return Account(user*kinds + 0) }

// UserCredits is the account of a user's credits.
func UserCredits(user int64) Account { return Account(user*kinds + 1) }

// User is the user's account of this asset.
func User(user int64, asset Asset) Account { return Account(user*kinds + int64(asset)) }

// Rewards is the part of the rewards pool that is held in this asset.
func Rewards(asset Asset) Account {
	if asset == Credits {
		return RewardCredits
	}
	return RewardSats
}

// Clearing is the account through which money of this asset passes when a user pays themselves.
func Clearing(asset Asset) Account {
	if asset == Credits {
		return ClearCredits
	}
	return ClearSats
}

// Asset is what the account holds.
func (a Account) Asset() Asset { return Asset(a & 1) }

// Owner is the user the account belongs to, or 0 for the system.
func (a Account) Owner() int64 { return int64(a) / kinds }

func (a Account) String() string {
	if a.Owner() != 0 {
		return fmt.Sprintf("user %d %s", a.Owner(), a.Asset())
	}
	switch a {
	case Lightning:
		return "lightning"
	case IssuedCredits:
		return "issued credits"
	case BackingSats:
		return "backing sats"
	case RewardCredits:
		return "reward credits"
	case RewardSats:
		return "reward sats"
	case ClearCredits, ClearSats:
		return "clearing " + a.Asset().String()
	case RoutingSats:
		return "routing sats"
	case LossSats:
		return "loss sats"
	}
	return fmt.Sprintf("system %d", int64(a))
}
