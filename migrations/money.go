package migrations

// firstKept is the first migration that keeps what people have paid for, and the books, when it is taken back. Those
// before it made the tables for them.
const firstKept = 36

// DownKeepsMoney reports whether [Down] from this version keeps what people have paid for, and the books.
func DownKeepsMoney(version uint, steps int) (bool, error) {
	all, err := versions()
	if err != nil {
		return false, err
	}
	there := 0
	for there < len(all) && all[there] <= version {
		there++
	}
	if steps == 0 || steps > there {
		steps = there
	}
	return steps == 0 || all[there-steps] >= firstKept, nil
}
