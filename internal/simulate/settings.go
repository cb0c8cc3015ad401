package simulate

import (
	"time"

	"github.com/a-seed-a7aed72f/holdfast/community"
)

// What lasts for days or costs a fortune in the real world lasts for minutes here, and costs what people have. The
// model uses the same amounts. All others are those of the specification.
const (
	boostLasts   = 6 * time.Minute
	grace        = 4 * time.Minute
	keepUploads  = 5 * time.Minute
	fileBytes    = 600 // of every file
	anonymousFee = 100_000
)

// prices are what a territory costs, in msat, by its billing.
var prices = map[string]int64{"MONTHLY": 100_000, "YEARLY": 900_000, "ONCE": 2_000_000}

// uploadFee is the fee of a file in msat, given the bytes that its owner has uploaded, including it.
func uploadFee(bytes int64) int64 {
	switch {
	case bytes <= 1000:
		return 0
	case bytes <= 2000:
		return 10_000
	case bytes <= 4000:
		return 100_000
	}
	return 1_000_000
}

func settings() community.Settings {
	s := community.DefaultSettings()
	s.BoostLasts, s.TerritoryGrace, s.KeepUploads = boostLasts, grace, keepUploads
	s.TerritoryMonthly, s.TerritoryYearly, s.TerritoryOnce = 100_000, 900_000, 2_000_000
	s.UploadSteps = [...]int64{1000, 2000, 4000}
	return s
}
