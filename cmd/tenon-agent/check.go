package main

import (
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	"slices"
	"text/tabwriter"

	"github.com/tenon-cloud/tenon/internal/preflight"
)

// errCheck is that a line failed; which one was printed.
var errCheck = errors.New("this machine can't be a node as it is")

// check looks at this machine, before it joins or later, and changes nothing.
func check(ctx context.Context, args []string, getenv func(string) string, out io.Writer) error {
	asJSON := false
	args = slices.DeleteFunc(slices.Clone(args), func(a string) bool {
		is := a == "-json" || a == "--json"
		asJSON = asJSON || is
		return is
	})
	c, err := readConfig(args, getenv)
	if errors.Is(err, flag.ErrHelp) {
		return nil
	}
	if err != nil {
		return err
	}
	return tell(out, preflight.Judge(readFacts(ctx, c)), asJSON)
}

func tell(out io.Writer, lines []preflight.Line, asJSON bool) error {
	count := map[preflight.Level]int{}
	for _, l := range lines {
		count[l.Level]++
	}
	if asJSON {
		enc := json.NewEncoder(out)
		enc.SetIndent("", "  ")
		if err := enc.Encode(map[string]any{
			"lines": lines, "ok": !preflight.Failed(lines), "passed": count[preflight.OK], "warned": count[preflight.Warn], "failed": count[preflight.Fail],
		}); err != nil {
			return fmt.Errorf("print: %w", err)
		}
	} else {
		w := tabwriter.NewWriter(out, 0, 0, 2, ' ', 0)
		for _, l := range lines {
			_, _ = fmt.Fprintf(w, "%s\t%s\t%s\n", l.Level, l.Name, l.Text)
			if l.Do != "" {
				_, _ = fmt.Fprintf(w, "\t\t→ %s\n", l.Do)
			}
		}
		if err := w.Flush(); err != nil {
			return fmt.Errorf("print: %w", err)
		}
		_, _ = fmt.Fprintf(out, "%d ok, %d to look at, %d failed\n", count[preflight.OK], count[preflight.Warn], count[preflight.Fail])
	}
	if preflight.Failed(lines) {
		return errCheck
	}
	return nil
}
