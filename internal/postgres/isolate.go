package postgres

import "strings"

// RowRefused reports that the database refused a row for what is in it: tried
// again, it would be refused again.
func RowRefused(err error) bool {
	code := Code(err)
	return strings.HasPrefix(code, "22") || strings.HasPrefix(code, "23")
}

// Isolate runs do, one transaction, with a whole batch; when the database
// refuses a row of it, with each alone, so that one that is broken holds up
// nobody else. What is refused alone is told to broken and left as it is.
func Isolate[T any](list []T, do func([]T) error, broken func(T, error)) error {
	err := do(list)
	switch {
	case !RowRefused(err):
		return err
	case len(list) == 1:
		broken(list[0], err)
		return nil
	}
	for i := range list {
		err := do(list[i : i+1])
		switch {
		case RowRefused(err):
			broken(list[i], err)
		case err != nil:
			return err
		}
	}
	return nil
}
