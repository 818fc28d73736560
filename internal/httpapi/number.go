package httpapi

import (
	"bytes"
	"encoding/json"
	"errors"
	"math"
	"reflect"
	"strconv"
	"strings"
)

// read decodes a body into what a handler takes. A whole number is one however it is
// written (2.0, 2e3); one that its field can't hold is named with its field.
func read(data []byte, v any) error {
	if _, first := v.(*any); !first { // huma's first reading tells where it can't be read
		data = wholeNumbers(data)
	}
	err := json.Unmarshal(data, v)
	var wrong *json.UnmarshalTypeError
	if !errors.As(err, &wrong) {
		return err
	}
	at := placeIn(data, wrong.Offset)
	number, isNumber := strings.CutPrefix(wrong.Value, "number")
	if !isNumber {
		return misreadAt(at, "can't be "+withArticle(wrong.Value))
	}
	return misreadAt(at, outOf(wrong.Type, strings.HasPrefix(strings.TrimSpace(number), "-")))
}

// outOf says what a number must be that a type can't hold.
func outOf(t reflect.Type, negative bool) string {
	switch t.Kind() {
	case reflect.Int, reflect.Int8, reflect.Int16, reflect.Int32, reflect.Int64:
		if negative {
			return "must be at least " + strconv.FormatInt(-1<<(t.Bits()-1), 10)
		}
		return "must be at most " + strconv.FormatUint(1<<(t.Bits()-1)-1, 10)
	case reflect.Uint, reflect.Uint8, reflect.Uint16, reflect.Uint32, reflect.Uint64:
		if negative {
			return "must be at least 0"
		}
		return "must be at most " + strconv.FormatUint(math.MaxUint64>>(64-t.Bits()), 10)
	case reflect.Float32, reflect.Float64, reflect.Interface:
		if negative {
			return "is too small"
		}
		return "is too large"
	}
	return "can't be a number"
}

func withArticle(kind string) string {
	switch kind {
	case "bool":
		return "true or false"
	case "array":
		return "a list"
	case "object":
		return "an object"
	}
	return "a " + kind
}

// wholeNumbers writes numbers outside of texts without their point and exponent
// where they are whole and exact so.
func wholeNumbers(data []byte) []byte {
	var out []byte
	kept := 0
	for i := 0; i < len(data); i++ {
		switch b := data[i]; {
		case b == '"':
			for i++; i < len(data) && data[i] != '"'; i++ {
				if data[i] == '\\' {
					i++
				}
			}
		case b == '-' || b >= '0' && b <= '9':
			end := i + 1
			for end < len(data) && strings.IndexByte("0123456789+-.eE", data[end]) >= 0 {
				end++
			}
			if word := data[i:end]; bytes.ContainsAny(word, ".eE") && json.Valid(word) {
				f, err := strconv.ParseFloat(string(word), 64)
				if err == nil && f == math.Trunc(f) && math.Abs(f) < 1<<53 {
					out = strconv.AppendInt(append(out, data[kept:i]...), int64(f), 10)
					kept = end
				}
			}
			i = end - 1
		}
	}
	if kept == 0 {
		return data
	}
	return append(out, data[kept:]...)
}

// placeIn names the value of a body that ends at an offset, as encoding/json tells
// it: for some numbers it is one further.
func placeIn(data []byte, offset int64) string {
	d := json.NewDecoder(bytes.NewReader(data))
	d.UseNumber()
	place := "body"
	_ = walk(d, "body", func(at string, scalar bool) error {
		if place = at; d.InputOffset() >= offset || scalar && d.InputOffset() == offset-1 {
			return errFound
		}
		return nil
	})
	return place
}

var errFound = errors.New("found")

// walk goes through a value and names each that is reached: an object and a list as
// they begin.
func walk(d *json.Decoder, at string, visit func(at string, scalar bool) error) error {
	token, err := d.Token()
	open, ok := token.(json.Delim)
	if err == nil {
		err = visit(at, !ok)
	}
	if err != nil || !ok {
		return err
	}
	for i := 0; d.More(); i++ {
		inner := at + "[" + strconv.Itoa(i) + "]"
		if open == '{' {
			name, err := d.Token()
			if err != nil {
				return err
			}
			text, _ := name.(string)
			inner = at + "." + text
		}
		if err := walk(d, inner, visit); err != nil {
			return err
		}
	}
	_, err = d.Token() // its end
	return err
}
