package main

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"
)

// errSilent: a machine's processor never came to run its system. It is emulated
// too, and was seen to go round without end before the system said its first word.
var errSilent = errors.New("the emulated processor of a machine never ran its system")

// silentAfter is how long a machine may say nothing on its serial port: several
// times what a boot takes on two processors with other work.
const silentAfter = 4 * time.Minute

// silent looks whether a machine is one of those, by what the host's kernel and
// QEMU say, and never by what Tenon says: its process is there, its processor has
// been kept busy, and QEMU has written no byte of what came out of its serial port
// since it started. What Tenon loses of what a machine said is a failure of Tenon
// and stays one.
func (l *lab) silent(ctx context.Context, name string) error {
	i, err := l.get(ctx, name)
	if err != nil {
		return err
	}
	text, err := l.host.do(ctx, fmt.Sprintf(`p=$(pgrep -f 'qemu-system-x86_64 -name guest=tenon.*%s' | head -n 1)
[ -n "$p" ] || { echo 'it has no process'; exit 0; }
age=$(ps -o etimes= -p $p | tr -d ' ')
[ "$age" -ge %d ] || { echo "its process is $age s old"; exit 0; }
busy=$(ps -o cputimes= -p $p | tr -d ' ')
log=$(find /var/lib/tenon-agent -path '*%s*' -name 'serial.log*' -size +0 -newermt "@$(($(date +%%s) - age + 2))" | head -n 1)
[ "$busy" -ge 20 ] || { echo "its process had $busy s of a processor"; exit 0; }
[ -z "$log" ] || { echo "QEMU wrote $log"; exit 0; }
echo "silent: process $p is $age s old and had $busy s of a processor"`, i.ID, int(silentAfter.Seconds()), i.ID))
	if err != nil || !strings.HasPrefix(text, "silent: ") {
		return fmt.Errorf("%s has not said all: %s (%v)", name, text, err)
	}
	return fmt.Errorf("%w: %s, %s", errSilent, name, strings.TrimPrefix(text, "silent: "))
}
