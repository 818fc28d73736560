package httpapi

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"unicode/utf8"

	"github.com/danielgtaylor/huma/v2"

	"github.com/tenon-cloud/tenon/internal/cloud"
)

// notText is said of what no resource's name and no field can hold.
const notText = "must be UTF-8 without zero bytes"

// headersRead are the headers whose text goes on into the use-cases.
var headersRead = []string{"Idempotency-Key", "If-Match", "Last-Event-ID", "Tenon-Org"}

func isText(s string) bool { return utf8.ValidString(s) && strings.IndexByte(s, 0) < 0 }

// wellFormed stops what is no text before anything reads it: nothing can be named
// so, and the database refuses it.
func (s *server) wellFormed(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if strings.HasPrefix(r.URL.Path, "/v2/") {
			next.ServeHTTP(w, r) // the registry has its own grammar
			return
		}
		if !isText(r.URL.Path) {
			writeProblem(w, r, cloud.E(cloud.KindNotFound, "not_found", "there is nothing at this address: a path %s", notText))
			return
		}
		if fields := queryFields(r.URL.RawQuery); len(fields) > 0 {
			writeProblem(w, r, cloud.Invalid(fields...))
			return
		}
		for _, name := range headersRead {
			for _, v := range r.Header.Values(name) {
				if !isText(v) {
					e := cloud.E(cloud.KindMalformed, "malformed_header", "the header %s %s", name, notText)
					e.Fields = []cloud.Field{{Location: "header." + name, Message: notText}}
					writeProblem(w, r, e)
					return
				}
			}
		}
		if agent := r.UserAgent(); !isText(agent) {
			r.Header.Set("User-Agent", strings.ToValidUTF8(strings.ReplaceAll(agent, "\x00", ""), ""))
		}
		next.ServeHTTP(w, r)
	})
}

func queryFields(raw string) (fields []cloud.Field) {
	if raw == "" {
		return nil
	}
	query, err := url.ParseQuery(raw)
	if err != nil {
		return []cloud.Field{{Location: "query", Message: "can't be read: " + err.Error()}}
	}
	for key, values := range query {
		if !isText(key) {
			fields = append(fields, cloud.Field{Location: "query", Message: "a parameter's name " + notText})
			continue
		}
		for _, v := range values {
			if !isText(v) {
				fields = append(fields, cloud.Field{Location: "query." + key, Message: notText})
				break
			}
		}
	}
	return fields
}

// misread marks the findings of scan on their way through huma, which keeps no
// more of an error than its text.
const misread = "misread "

func misreadAt(at, message string) error { return fmt.Errorf("%s%s: %s", misread, at, message) }

// misreadField reads such a finding again.
func misreadField(text string) (location, message string, ok bool) {
	rest, ok := strings.CutPrefix(text, misread)
	if cut := strings.LastIndex(rest, ": "); ok && cut > 0 {
		return rest[:cut], rest[cut+2:], true
	}
	return "", "", false
}

func isMisread(errs []error) bool {
	return slices.ContainsFunc(errs, func(err error) bool {
		var d huma.ErrorDetailer
		return errors.As(err, &d) && strings.HasPrefix(d.ErrorDetail().Message, misread)
	})
}

// scan looks for names that are given twice, of which encoding/json silently
// takes the last, and for what is no text.
func scan(data []byte) error {
	if !utf8.Valid(data) {
		return errors.New("it is not UTF-8")
	}
	d := json.NewDecoder(bytes.NewReader(data))
	d.UseNumber()
	if err := scanValue(d, "body"); err != nil && strings.HasPrefix(err.Error(), misread) {
		return err
	}
	return nil // what is malformed is said by the decoder, with its place
}

func scanValue(d *json.Decoder, at string) error {
	token, err := d.Token()
	if err != nil {
		return err
	}
	switch t := token.(type) {
	case string:
		if strings.IndexByte(t, 0) >= 0 {
			return misreadAt(at, notText)
		}
	case json.Delim:
		if t == '[' {
			for i := 0; d.More(); i++ {
				if err := scanValue(d, at+"["+strconv.Itoa(i)+"]"); err != nil {
					return err
				}
			}
		} else if err := scanObject(d, at); err != nil {
			return err
		}
		_, err = d.Token() // its end
		return err
	}
	return nil
}

func scanObject(d *json.Decoder, at string) error {
	seen := map[string]bool{}
	for d.More() {
		token, err := d.Token()
		if err != nil {
			return err
		}
		name, _ := token.(string)
		if strings.IndexByte(name, 0) >= 0 {
			return misreadAt(at, "a name in it "+notText)
		}
		if seen[name] {
			return misreadAt(at+"."+name, "is given twice")
		}
		seen[name] = true
		if err := scanValue(d, at+"."+name); err != nil {
			return err
		}
	}
	return nil
}
