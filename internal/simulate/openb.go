package simulate

import (
	"encoding/csv"
	"fmt"
	"io"
	"slices"
	"strconv"
	"strings"

	"github.com/tenon-cloud/tenon/internal/packing"
)

// Models gives each GPU model of a cluster its number.
type Models struct{ names []string }

func (m *Models) number(name string) (uint8, error) {
	if i := slices.Index(m.names, name); i >= 0 {
		return uint8(i), nil
	}
	if len(m.names) == 64 {
		return 0, fmt.Errorf("more than 64 GPU models")
	}
	m.names = append(m.names, name)
	return uint8(len(m.names) - 1), nil
}

// columns reads a CSV file with a heading and gives each row's cells by name.
func columns(r io.Reader, needed ...string) (rows []func(string) string, err error) {
	in := csv.NewReader(r)
	in.ReuseRecord = false
	head, err := in.Read()
	if err != nil {
		return nil, fmt.Errorf("read the heading: %w", err)
	}
	at := map[string]int{}
	for i, name := range head {
		at[strings.TrimSpace(name)] = i
	}
	for _, name := range needed {
		if _, ok := at[name]; !ok {
			return nil, fmt.Errorf("no column %s", name)
		}
	}
	for {
		record, err := in.Read()
		if err == io.EOF {
			return rows, nil
		}
		if err != nil {
			return nil, fmt.Errorf("read a row: %w", err)
		}
		rows = append(rows, func(name string) string {
			i, ok := at[name]
			if !ok {
				return ""
			}
			return strings.TrimSpace(record[i])
		})
	}
}

// numbers parses cells of one row; an empty one is 0.
type numbers struct {
	row  func(string) string
	line int
	err  error
}

func (n *numbers) get(name string, most int) int {
	text := n.row(name)
	if text == "" || n.err != nil {
		return 0
	}
	v, err := strconv.Atoi(text)
	if err == nil && (v < 0 || v > most) {
		err = fmt.Errorf("not between 0 and %d", most)
	}
	if err != nil {
		n.err = fmt.Errorf("line %d, %s %q: %w", n.line, name, text, err)
	}
	return v
}

const most = 1<<31 - 1

// ReadNodes reads openb's columns sn, cpu_milli, memory_mib, gpu, model.
func ReadNodes(r io.Reader, m *Models) ([]packing.Node, error) {
	rows, err := columns(r, "cpu_milli", "memory_mib", "gpu", "model")
	if err != nil {
		return nil, err
	}
	var out []packing.Node
	for i, row := range rows {
		in := numbers{row: row, line: i + 2}
		n := packing.Node{CPUMilli: int32(in.get("cpu_milli", most)), MemoryMiB: int32(in.get("memory_mib", most)), Cards: uint8(in.get("gpu", packing.MaxCards))}
		if in.err != nil {
			return nil, in.err
		}
		if n.Model, err = m.number(row("model")); err != nil {
			return nil, err
		}
		for c := range n.Cards {
			n.Free[c] = packing.Milli
		}
		out = append(out, n)
	}
	return out, nil
}

// ReadPods reads openb's columns cpu_milli, memory_mib, num_gpu, gpu_milli and,
// where they are there, gpu_spec and name. They come in the order of the names.
func ReadPods(r io.Reader, m *Models) ([]packing.Request, error) {
	rows, err := columns(r, "cpu_milli", "memory_mib", "num_gpu", "gpu_milli")
	if err != nil {
		return nil, err
	}
	type pod struct {
		name string
		packing.Request
	}
	var pods []pod
	for i, row := range rows {
		in := numbers{row: row, line: i + 2}
		p := packing.Request{CPUMilli: int32(in.get("cpu_milli", most)), MemoryMiB: int32(in.get("memory_mib", most)),
			Cards: uint8(in.get("num_gpu", packing.MaxCards)), Milli: int16(in.get("gpu_milli", packing.Milli))}
		if in.err != nil {
			return nil, in.err
		}
		if p.Cards > 1 {
			p.Milli = packing.Milli
		}
		if p.Cards == 0 {
			p.Milli = 0
		} else if p.Milli == 0 {
			return nil, fmt.Errorf("line %d: asks for nothing of a GPU", in.line)
		}
		if spec := row("gpu_spec"); spec != "" && p.Cards > 0 {
			for name := range strings.SplitSeq(spec, "|") {
				model, err := m.number(name)
				if err != nil {
					return nil, err
				}
				p.Models |= 1 << model
			}
		}
		pods = append(pods, pod{row("name"), p})
	}
	slices.SortStableFunc(pods, func(a, b pod) int { return strings.Compare(a.name, b.name) })
	out := make([]packing.Request, len(pods))
	for i := range pods {
		out[i] = pods[i].Request
	}
	return out, nil
}
