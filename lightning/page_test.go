package lightning

import (
	"slices"
	"testing"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
)

// One that is too large beside any other is asked for alone, where no size is too large, and the pages after it grow
// again: a stranger's invoice must not make a list of many thousands one of single questions.
func TestPagesGrowAgainBehindALargeOne(t *testing.T) {
	t.Parallel()
	const all, large = 2000, 700
	var heard, sizes []uint64
	err := inPages(func(after, most uint64, options ...grpc.CallOption) (page []uint64, last uint64, err error) {
		sizes = append(sizes, most)
		for last = after; last < min(after+most, all); {
			last++
			page = append(page, last)
		}
		if slices.Contains(page, large) && len(options) == 0 {
			return nil, 0, status.Error(codes.ResourceExhausted, "too large")
		}
		return page, last, nil
	}, func(n uint64) error { heard = append(heard, n); return nil })
	if err != nil || len(heard) != all || !slices.IsSorted(heard) {
		t.Errorf("%d of %d, %v", len(heard), all, err)
	}
	if len(sizes) > 40 || !slices.Contains(sizes[len(sizes)-3:], longestPage) {
		t.Errorf("asked for pages of %d", sizes)
	}
}
