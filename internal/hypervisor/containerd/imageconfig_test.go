package containerd

import (
	"context"
	"fmt"
	"strings"
	"testing"

	v1 "github.com/google/go-containerregistry/pkg/v1"

	"github.com/tenon-cloud/tenon/internal/nodewire"
)

func TestAnImageThatCantStartIsSaidToAtOnce(t *testing.T) {
	t.Parallel()
	c := newCloud(t)
	lost := layer(t, entry{name: "etc/.wh.passwd"}, entry{name: "etc/.wh.group"})
	people := layer(t, entry{name: "etc/passwd", body: "root:x:0:0::/:/bin/sh\nfar:x:70000:70000::/:/bin/sh\n", mode: 0o644})
	links := layer(t, entry{name: "link", kind: '2', link: "/etc/passwd"})
	for i, tc := range []struct {
		config v1.Config
		more   []v1.Layer
		want   string
	}{
		{v1.Config{User: "nobody-like-it"}, nil, `user "nobody-like-it" does not exist`},
		{v1.Config{User: "app"}, []v1.Layer{lost}, `user "app" does not exist`},
		{v1.Config{User: "app:nogroup"}, nil, `user "app:nogroup" does not exist`},
		{v1.Config{User: "70000"}, nil, `user "70000" has an id over 65535`},
		{v1.Config{User: "99999999999999999999"}, nil, "has an id over 65535"},
		{v1.Config{User: "far"}, []v1.Layer{people}, `user "far" has an id over 65535`},
		{v1.Config{WorkingDir: "/etc/passwd"}, nil, `working folder "/etc/passwd" is not a folder`},
		{v1.Config{WorkingDir: "/etc/passwd/below"}, nil, `"/etc/passwd/below" is not a folder`},
		{v1.Config{WorkingDir: "/link"}, []v1.Layer{links}, "working folder can't be entered"},
		{v1.Config{}, []v1.Layer{layer(t, entry{name: ".wh.proc"}), layer(t, entry{name: "proc", body: "x"})}, "/proc is not a folder"},
		{v1.Config{}, []v1.Layer{layer(t, entry{name: ".wh.etc"}), layer(t, entry{name: "etc", body: "x"})}, "/etc is not a folder"},
	} {
		s := spec(fmt.Sprintf("inst_config%d", i), c.push(t, tc.config, tc.more...), "sleep", "1000")
		_, err := c.Driver.Start(context.Background(), s)
		if err == nil {
			t.Errorf("%+v started", tc.config)
			continue
		}
		f := failureOf(t, err)
		if f.Reason != nodewire.ReasonStart || !f.Final || !strings.Contains(f.Message, tc.want) || strings.Contains(f.Message, c.run) {
			t.Errorf("%+v: %+v", tc.config, f)
		}
	}
	s := spec("inst_made", c.push(t, v1.Config{User: "65535", WorkingDir: "/made/for/it"}), "sleep", "1000")
	c.start(t, s)
	if out, _ := c.sh(t, s.ID, "id -u; pwd"); out != "65535\n/made/for/it\n" {
		t.Errorf("the last of its users in a folder that was missing: %s", out)
	}
}
