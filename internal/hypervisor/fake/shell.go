package fake

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"strconv"
	"strings"
	"time"

	"github.com/tenon-cloud/tenon/internal/hypervisor"
	"github.com/tenon-cloud/tenon/internal/nodewire"
)

const banner = "This instance is simulated: it books resources and runs nothing."

func isShell(command []string) bool {
	return len(command) == 0 || len(command) == 1 && (command[0] == "sh" || command[0] == "bash" || command[0] == "/bin/sh" || command[0] == "/bin/bash")
}

// shell reads lines and answers a few of them.
func (e *Engine) shell(ctx context.Context, g *guest, req nodewire.ExecRequest, s hypervisor.ExecIO) int {
	t := terminal{in: bufio.NewReader(s.Stdin), out: s.Stdout, echo: req.TTY}
	t.say(banner)
	for ctx.Err() == nil {
		line, err := t.line("simulated:" + g.name + "# ")
		if err != nil {
			return 0
		}
		word, rest, _ := strings.Cut(strings.TrimSpace(line), " ")
		switch word {
		case "":
		case "exit", "logout":
			code, _ := strconv.Atoi(strings.TrimSpace(rest))
			return code & 0xff
		case "hostname":
			t.say(g.name)
		case "echo":
			t.say(rest)
		case "uptime":
			t.say(fmt.Sprintf("up %s (simulated)", time.Since(g.StartedAt).Round(time.Second)))
		case "nvidia-smi", "lspci", "devices":
			if len(g.Devices) == 0 {
				t.say("no GPU was asked for (simulated)")
			}
			for i, d := range g.Devices {
				t.say(fmt.Sprintf("GPU %d: %s, %s, slots %d to %d (simulated)", i, d.GPUUUID, d.Profile, d.SlotStart, d.SlotEnd))
			}
		case "help":
			t.say("simulated commands: devices, echo, exit, help, hostname, nvidia-smi, uptime")
		default:
			t.say(word + ": not run: this instance is simulated (try help)")
		}
	}
	return 130
}

// terminal edits lines as a terminal's driver does, where there is one.
type terminal struct {
	in   *bufio.Reader
	out  io.Writer
	echo bool
}

func (t terminal) say(text string) {
	end := "\n"
	if t.echo {
		end = "\r\n"
	}
	_, _ = io.WriteString(t.out, text+end)
}

func (t terminal) line(prompt string) (string, error) {
	if !t.echo {
		return t.in.ReadString('\n')
	}
	_, _ = io.WriteString(t.out, prompt)
	var line []rune
	for {
		r, _, err := t.in.ReadRune()
		if err != nil {
			return "", err
		}
		switch {
		case r == '\r' || r == '\n':
			_, _ = io.WriteString(t.out, "\r\n")
			return string(line), nil
		case r == 3: // Ctrl-C
			_, _ = io.WriteString(t.out, "^C\r\n"+prompt)
			line = line[:0]
		case r == 4 && len(line) == 0: // Ctrl-D
			_, _ = io.WriteString(t.out, "exit\r\n")
			return "", io.EOF
		case r == 127 || r == 8:
			if len(line) > 0 {
				line = line[:len(line)-1]
				_, _ = io.WriteString(t.out, "\b \b")
			}
		case r >= ' ' && len(line) < 4096:
			line = append(line, r)
			_, _ = io.WriteString(t.out, string(r))
		}
	}
}
