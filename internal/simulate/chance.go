package simulate

import "time"

// chance is all the randomness of a seed. Each draw is named, and depends only on the seed and its name. So leaving
// something out of a schedule changes no other draw, and a failing schedule can be shrunk.
type chance uint64

func (c chance) hash(name string, n int) uint64 {
	h := uint64(14695981039346656037) ^ uint64(c)
	for i := range len(name) {
		h = (h ^ uint64(name[i])) * 1099511628211
	}
	return mix(h ^ mix(uint64(n)+uint64(c)<<1))
}

// mix is the finaliser of splitmix64.
func mix(h uint64) uint64 {
	h += 0x9e3779b97f4a7c15
	h = (h ^ h>>30) * 0xbf58476d1ce4e5b9
	h = (h ^ h>>27) * 0x94d049bb133111eb
	return h ^ h>>31
}

// share is at least 0 and less than 1.
func (c chance) share(name string, n int) float64 { return float64(c.hash(name, n)>>11) / (1 << 53) }

// happens is true with this probability.
func (c chance) happens(p float64, name string, n int) bool { return c.share(name, n) < p }

// below is a number from 0 to most-1.
func (c chance) below(most int, name string, n int) int { return int(c.hash(name, n) % uint64(most)) }

// between is a duration between the two.
func (c chance) between(from, to time.Duration, name string, n int) time.Duration {
	return from + time.Duration(c.share(name, n)*float64(to-from))
}
