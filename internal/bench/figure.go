package bench

import (
	"fmt"
	"slices"
)

// figure is one number from each round.
type figure []float64

// median is the middle one, the lower of two.
func (f figure) median() float64 {
	if len(f) == 0 {
		return 0
	}
	return slices.Sorted(slices.Values(f))[(len(f)-1)/2]
}

func (f figure) spread() [2]float64 {
	if len(f) == 0 {
		return [2]float64{}
	}
	return [2]float64{slices.Min(f), slices.Max(f)}
}

func (f figure) sum() (sum float64) {
	for _, n := range f {
		sum += n
	}
	return sum
}

// over divides round by round, because what disturbs one figure of a round disturbs the other too.
func (f figure) over(by figure) figure {
	ratios := make(figure, min(len(f), len(by)))
	for i := range ratios {
		ratios[i] = f[i] / by[i]
	}
	return ratios
}

// text is the median and the spread.
func (f figure) text(format string) string {
	s := f.spread()
	return fmt.Sprintf(format+" ("+format+" to "+format+")", f.median(), s[0], s[1])
}

// minus subtracts round by round.
func (f figure) minus(by figure) figure {
	rest := make(figure, min(len(f), len(by)))
	for i := range rest {
		rest[i] = f[i] - by[i]
	}
	return rest
}
