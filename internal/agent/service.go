package agent

import (
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"strconv"
	"time"

	"github.com/tenon-cloud/tenon/internal/hypervisor"
	"github.com/tenon-cloud/tenon/internal/nodewire"
)

// maxAssignment bounds one PUT: some ten thousand instances.
const maxAssignment = 64 << 20

// Handler is what the control plane may ask of the node.
func (a *Agent) Handler() http.Handler {
	mux := http.NewServeMux()
	mux.HandleFunc("PUT "+nodewire.PathAssignment, a.putAssignment)
	mux.HandleFunc("GET "+nodewire.PathLogs, a.getLogs)
	mux.HandleFunc("GET "+nodewire.PathExec, a.getExec)
	mux.HandleFunc("GET "+nodewire.PathPort, a.getPort)
	mux.HandleFunc("GET "+nodewire.PathConsole, a.getConsole)
	mux.HandleFunc("GET "+nodewire.PathScreen, a.getScreen)
	mux.HandleFunc("GET "+nodewire.PathMetrics, a.getMetrics)
	mux.HandleFunc("GET "+nodewire.PathGPUMetrics, a.getGPUMetrics)
	mux.HandleFunc("GET "+nodewire.PathNodeHealth, func(w http.ResponseWriter, _ *http.Request) {
		answer(w, http.StatusOK, map[string]string{"status": "ok", "version": a.cfg.Version})
	})
	return mux
}

func answer(w http.ResponseWriter, status int, v any) {
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(status)
	_ = json.NewEncoder(w).Encode(v)
}

func refuse(w http.ResponseWriter, status int, message string) {
	answer(w, status, map[string]string{"error": message})
}

func (a *Agent) putAssignment(w http.ResponseWriter, r *http.Request) {
	var as nodewire.Assignment
	if err := json.NewDecoder(http.MaxBytesReader(w, r.Body, maxAssignment)).Decode(&as); err != nil {
		refuse(w, http.StatusBadRequest, "read assignment: "+err.Error())
		return
	}
	heard := a.contact.clock()
	held, err := a.assign(as, func() { a.contact.made(heard) })
	switch {
	case err == nil:
		answer(w, http.StatusOK, nodewire.Held{Version: held})
	case errors.Is(err, errStale):
		answer(w, http.StatusConflict, nodewire.Held{Version: held, Message: err.Error()})
	case errors.Is(err, errInvalid):
		refuse(w, http.StatusUnprocessableEntity, err.Error())
	default:
		a.log.Error("take assignment", "error", err)
		refuse(w, http.StatusInternalServerError, "the node could not write its ledger")
	}
}

// guestDriver finds the driver of an instance that this node knows.
func (a *Agent) guestDriver(w http.ResponseWriter, r *http.Request) (string, hypervisor.Driver) {
	id := r.PathValue("id")
	rec, ok := a.ledger.snapshot().Records[id]
	if !ok {
		refuse(w, http.StatusNotFound, "no such instance on this node")
		return "", nil
	}
	d := a.driver(rec.Kind)
	if d == nil {
		refuse(w, http.StatusNotFound, "this node can't run instances of kind "+rec.Kind)
		return "", nil
	}
	return id, d
}

func (a *Agent) getLogs(w http.ResponseWriter, r *http.Request) {
	id, d := a.guestDriver(w, r)
	if d == nil {
		return
	}
	opts := hypervisor.LogOptions{Follow: r.URL.Query().Get("follow") == "true"}
	if t := r.URL.Query().Get("tail"); t != "" {
		n, err := strconv.Atoi(t)
		if err != nil || n < 0 {
			refuse(w, http.StatusBadRequest, "tail is a number of lines")
			return
		}
		opts.Tail = n
	}
	lines, err := d.Logs(r.Context(), id, opts)
	if err != nil {
		status := http.StatusInternalServerError
		if errors.Is(err, hypervisor.ErrNoGuest) {
			status = http.StatusNotFound
		}
		a.log.Debug("read log", "instance", id, "error", err)
		refuse(w, status, "there is no log")
		return
	}
	defer func() { _ = lines.Close() }()
	w.Header().Set("Content-Type", "text/plain; charset=utf-8")
	w.Header().Set("X-Content-Type-Options", "nosniff")
	flush := http.NewResponseController(w)
	_ = flush.Flush()
	buf := make([]byte, 32<<10)
	for {
		n, err := lines.Read(buf)
		if n > 0 {
			if _, err := w.Write(buf[:n]); err != nil {
				return
			}
			if opts.Follow {
				_ = flush.Flush()
			}
		}
		if err != nil {
			if !errors.Is(err, io.EOF) && r.Context().Err() == nil {
				a.log.Debug("read log", "instance", id, "error", err)
				panic(http.ErrAbortHandler) // the reader must not take it for the end
			}
			return
		}
	}
}

func (a *Agent) getMetrics(w http.ResponseWriter, r *http.Request) {
	id := r.PathValue("id")
	if _, ok := a.ledger.snapshot().Records[id]; !ok {
		refuse(w, http.StatusNotFound, "no such instance on this node")
		return
	}
	m := nodewire.InstanceMetrics{IntervalSeconds: int(a.t.Sample / time.Second), Samples: a.metrics.list(id)}
	a.metrics.mu.Lock()
	for _, c := range a.metrics.cards {
		m.Simulated = m.Simulated || c.Simulated
	}
	a.metrics.mu.Unlock()
	answer(w, http.StatusOK, m)
}

func (a *Agent) getGPUMetrics(w http.ResponseWriter, r *http.Request) {
	cards := []nodewire.GPUSample{}
	if a.cfg.Board != nil {
		now, _, err := a.cfg.Board.Telemetry(r.Context())
		if err != nil {
			a.log.Debug("read telemetry", "error", err)
			refuse(w, http.StatusServiceUnavailable, "the GPUs could not be read")
			return
		}
		cards = now
	}
	answer(w, http.StatusOK, cards)
}
