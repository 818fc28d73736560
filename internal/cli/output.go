package cli

import (
	"encoding/json"
	"fmt"
	"strconv"
	"strings"
	"time"
	"unicode"
	"unicode/utf8"

	"gopkg.in/yaml.v3"
)

// table is rows of cells, the first of them the headings.
type table struct{ rows [][]string }

func (t *table) row(cells ...string) { t.rows = append(t.rows, cells) }

func (t *table) String() string {
	var widths []int
	for _, row := range t.rows {
		if len(row) == 1 {
			continue // a line of its own: quoted output, a reason
		}
		for i, cell := range row {
			if i == len(widths) {
				widths = append(widths, 0)
			}
			widths[i] = max(widths[i], utf8.RuneCountInString(cell))
		}
	}
	var b strings.Builder
	for _, row := range t.rows {
		line := ""
		for i, cell := range row {
			line += cell
			if len(row) > 1 {
				line += strings.Repeat(" ", widths[i]-utf8.RuneCountInString(cell)+2)
			}
		}
		b.WriteString(strings.TrimRight(line, " ") + "\n")
	}
	return b.String()
}

// print writes a value in the format that was asked for.
func (a *app) print(value any, fill func(*table)) error {
	switch a.output {
	case "json":
		enc := json.NewEncoder(a.Out)
		enc.SetIndent("", "  ")
		enc.SetEscapeHTML(false)
		return enc.Encode(value)
	case "yaml":
		text, err := toYAML(value)
		if err != nil {
			return err
		}
		_, err = a.Out.Write(text)
		return err
	}
	t := &table{}
	fill(t)
	text := fmt.Sprint(t)
	if _, isTerminal := terminal(a.Out); isTerminal {
		text = visible(text)
	}
	_, err := fmt.Fprint(a.Out, text)
	return err
}

// visible writes control characters as Go does: what a guest wrote must not move
// the cursor, or retitle the window, of whoever looks at it.
func visible(s string) string {
	var b strings.Builder
	for _, r := range strings.ReplaceAll(s, "\r\n", "\n") {
		if unicode.IsControl(r) && r != '\n' && r != '\t' || r == utf8.RuneError {
			b.WriteString(strings.Trim(strconv.QuoteRuneToASCII(r), "'"))
			continue
		}
		b.WriteRune(r)
	}
	return b.String()
}

// printList is print for lists, which say so when they are empty.
func printList[T any](a *app, items []T, empty string, head []string, cells func(T) []string) error {
	if items == nil {
		items = []T{}
	}
	if len(items) == 0 && a.output == "table" {
		_, err := fmt.Fprintln(a.Err, empty)
		return err
	}
	return a.print(items, func(t *table) {
		t.row(head...)
		for _, item := range items {
			t.row(cells(item)...)
		}
	})
}

// toYAML keeps the names and the order of the JSON form.
func toYAML(value any) ([]byte, error) {
	text, err := json.Marshal(value)
	if err != nil {
		return nil, fmt.Errorf("encode answer: %w", err)
	}
	var node yaml.Node
	if err := yaml.Unmarshal(text, &node); err != nil { // JSON is YAML
		return nil, fmt.Errorf("encode answer: %w", err)
	}
	blockStyle(&node)
	out, err := yaml.Marshal(&node)
	if err != nil {
		return nil, fmt.Errorf("encode answer: %w", err)
	}
	return out, nil
}

func blockStyle(n *yaml.Node) {
	n.Style = 0
	if (n.Kind == yaml.MappingNode || n.Kind == yaml.SequenceNode) && len(n.Content) == 0 {
		n.Style = yaml.FlowStyle
	}
	for _, c := range n.Content {
		blockStyle(c)
	}
}

// money writes millionths of a currency, rounded to what people pay in but
// never a small sum to nothing.
func money(micros int64, currency string) string {
	sign := ""
	if micros < 0 {
		sign, micros = "-", -micros
	}
	if micros > 0 && micros < 100 {
		return sign + "<0.0001 " + currency
	}
	if micros < 10_000 && micros > 0 {
		return fmt.Sprintf("%s%.4f %s", sign, float64(micros)/1e6, currency)
	}
	cents := (micros + 5_000) / 10_000
	return fmt.Sprintf("%s%d.%02d %s", sign, cents/100, cents%100, currency)
}

func optionalMoney(micros *int64, currency string) string {
	if micros == nil {
		return "no price"
	}
	return money(*micros, currency)
}

// age writes how long ago something was, in its two largest units at most.
func (a *app) age(at time.Time) string {
	return short(a.Now().Sub(at))
}

func short(d time.Duration) string {
	d = max(d, 0)
	switch {
	case d < time.Minute:
		return fmt.Sprintf("%ds", int(d.Seconds()))
	case d < time.Hour:
		return fmt.Sprintf("%dm%02ds", int(d.Minutes()), int(d.Seconds())%60)
	case d < 24*time.Hour:
		return fmt.Sprintf("%dh%02dm", int(d.Hours()), int(d.Minutes())%60)
	}
	return fmt.Sprintf("%dd%02dh", int(d.Hours())/24, int(d.Hours())%24)
}

func memory(mib int64) string {
	if mib%1024 == 0 || mib >= 10*1024 {
		return fmt.Sprintf("%d GiB", (mib+512)/1024)
	}
	return fmt.Sprintf("%d MiB", mib)
}

func clock(at *time.Time) string {
	if at == nil {
		return "-"
	}
	return at.UTC().Format("2006-01-02 15:04:05Z")
}
