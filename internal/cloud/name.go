package cloud

import "regexp"

var nameForm = regexp.MustCompile(`^[a-z]([a-z0-9-]{0,61}[a-z0-9])?$`)

// NameRule says in words what ValidName accepts.
const NameRule = "1 to 63 characters: lower-case letters, digits and hyphens, beginning with a letter and not ending with a hyphen"

// ValidName reports whether s may name a resource. The rule is that of a DNS
// label, so that a name can become a host name.
func ValidName(s string) bool { return nameForm.MatchString(s) }
