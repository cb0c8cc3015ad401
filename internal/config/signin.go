package config

import "time"

// SignIn is how people prove who they are, besides by keys that an operator hands out.
type SignIn struct {
	WalletSignUp bool          `help:"A wallet that is not known makes a new user when it signs in (LNURL-auth)." default:"true" negatable:""`
	SignedInFor  time.Duration `help:"How long an API key is good that was got by signing in." default:"720h"`
}

func (s SignIn) check(refuse func(when bool, format string, args ...any)) {
	refuse(s.SignedInFor < time.Minute, "Who signs in would be out again at once: set HOLDFAST_SIGNED_IN_FOR to 1m or more.")
}
