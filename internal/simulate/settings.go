package simulate

import (
	"time"

	"github.com/a-seed-a7aed72f/holdfast/community"
)

// What lasts for days or costs a fortune in the world outside lasts for minutes here, and costs what people have. The model knows the
// same amounts; all others are those of the specification.
const (
	boostLasts   = 6 * time.Minute
	grace        = 4 * time.Minute
	keepUploads  = 5 * time.Minute
	fileBytes    = 600 // of every file
	anonymousFee = 100_000
)

// prices are what a territory costs by its billing, in msat.
var prices = map[string]int64{"MONTHLY": 100_000, "YEARLY": 900_000, "ONCE": 2_000_000}

// uploadFee is the fee of a file, in msat, by the bytes that its owner has uploaded with it.
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
