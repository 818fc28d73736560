package httpapi

import (
	"strconv"
	"strings"
)

// kinds of value, as huma calls them and as a person does.
var kinds = map[string]string{
	"integer": "be a whole number", "number": "be a number", "boolean": "be true or false", "string": "be a string", "array": "be a list", "object": "be an object",
	"array items to be unique": "have no item twice",
}

var bounds = map[string]string{">=": "at least", "<=": "at most", ">": "more than", "<": "less than"}

// inWords says what huma expected: "number <= 1e+06" is "be at most 1000000".
func inWords(expected string) string {
	if kind, ok := kinds[expected]; ok {
		return kind
	}
	for _, of := range []struct{ what, verb, one, many string }{
		{"number ", "be ", "", ""}, {"length ", "be ", " character long", " characters long"}, {"array length ", "have ", " item", " items"},
	} {
		rest, ok := strings.CutPrefix(expected, of.what)
		if !ok {
			continue
		}
		if words, ok := bounded(rest); ok {
			unit := of.many
			if strings.HasSuffix(words, " 1") {
				unit = of.one
			}
			return of.verb + words + unit
		}
	}
	return "be " + strings.TrimPrefix(expected, "number ")
}

func bounded(s string) (string, bool) {
	sign, figure, _ := strings.Cut(s, " ")
	f, err := strconv.ParseFloat(figure, 64)
	if bounds[sign] == "" || err != nil {
		return "", false
	}
	return bounds[sign] + " " + strconv.FormatFloat(f, 'f', -1, 64), true
}
