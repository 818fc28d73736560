# Inside the instance only; whoever reaches it was let in by the gateway.
c.NotebookApp.ip = "127.0.0.1"
c.NotebookApp.port = 8888
c.NotebookApp.port_retries = 0
c.NotebookApp.open_browser = False
c.NotebookApp.token = ""
c.NotebookApp.password = ""
# The gateway passes the browser's Host on, which is not a local name.
c.NotebookApp.allow_remote_access = True
c.NotebookApp.notebook_dir = "/home/tenon"
c.NotebookApp.quit_button = False
c.NotebookApp.terminals_enabled = True
c.NotebookApp.iopub_data_rate_limit = 100_000_000
# Pings keep a quiet connection open on its way through proxies.
c.NotebookApp.tornado_settings = {"ws_ping_interval": 25_000, "ws_ping_timeout": 60_000}
# Whether a notebook is idle is the platform's to judge.
c.MappingKernelManager.cull_idle_timeout = 0
