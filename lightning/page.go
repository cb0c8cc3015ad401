package lightning

import "google.golang.org/grpc"

// longestPage is how many invoices or payments one answer holds at most.
const longestPage = 500

// inPages passes on all that a node lists, a page at a time: ask asks for at most so many behind an index, and returns
// the index of the last one.
//
// What one of them says can be long, and strangers choose how long: whoever pays an invoice decides in how many parts,
// with what beside each, and LND keeps them even where they went back. A page that is too large for an answer is asked
// for again with half as many, down to one of any size. Otherwise a few dozen payments, which cost nothing, would hide
// all others.
func inPages[Item any](
	ask func(after, most uint64, options ...grpc.CallOption) (page []Item, last uint64, err error), on func(Item) error,
) error {
	for after, most := uint64(0), uint64(longestPage); ; {
		var options []grpc.CallOption
		if most == 1 {
			options = append(options, unlimited)
		}
		page, last, err := ask(after, most, options...)
		if tooLarge(err) && most > 1 {
			most /= 2
			continue
		}
		if err != nil {
			return err
		}
		for _, item := range page {
			if err := on(item); err != nil {
				return err
			}
		}
		if uint64(len(page)) < most {
			return nil
		}
		after, most = last, min(2*most, longestPage) // most of the others are small
	}
}
