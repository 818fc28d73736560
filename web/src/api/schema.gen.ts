export interface components {
  schemas: {
    Client: {
    };
    GPUListOptions: {
    };
    AlarmListOptions: {
    };
    InstanceListOptions: {
    };
    UsageOptions: {
    };
    ExecOptions: {
    };
    Pool: {
      id: string;
      name: string;
      simulated: boolean;
    };
    Node: {
      id: string;
      name: string;
      pool: string;
      state: "ready" | "late" | "lost";
      drained: boolean;
      simulated: boolean;
      vcpu: number;
      memory_mib: number;
      cpu_overcommit: number;
      used_vcpu: number;
      used_memory_mib: number;
      agent_version: string;
      generation: number;
      ack_generation: number;
      last_seen_at?: string;
      created_at: string;
      gpus: components["schemas"]["GPU"][];
    };
    GPU: {
      id: string;
      node: string;
      node_id: string;
      uuid: string;
      pci_address: string;
      index: number;
      model: string;
      model_name: string;
      geometry: string;
      mode: "whole" | "mig" | "shared" | "vgpu";
      state: "ready" | "cleaning" | "quarantined" | "unhealthy" | "missing" | "unknown";
      reason?: string;
      memory_mib: number;
      numa_node: number;
      nvlink: string[];
      simulated: boolean;
      slots: number;
      claims: components["schemas"]["Claim"][];
      free: components["schemas"]["FreePlace"][];
    };
    Claim: {
      gpu_id: string;
      model?: string;
      model_name?: string;
      mode: string;
      profile: string;
      profile_name: string;
      slot_start: number;
      slot_end: number;
      instance_id: string;
      instance?: string;
      organisation?: string;
      simulated: boolean;
      created_at?: string;
    };
    FreePlace: {
      profile: string;
      profile_name: string;
      slot_start: number;
      slot_end: number;
    };
    GPUSample: {
      gpu_id: string;
      uuid: string;
      at: string;
      percent: number;
      memory_mib: number;
      power_watts: number;
      temperature_c: number;
      simulated: boolean;
    };
    GPUMetrics: {
      items: components["schemas"]["GPUSample"][];
      unreachable?: string[];
    };
    Capacity: {
      total: components["schemas"]["CapacityLine"];
      models: components["schemas"]["CapacityLine"][];
    };
    CapacityLine: {
      model?: string;
      model_name?: string;
      simulated: boolean;
      total: number;
      healthy: number;
      used: number;
      free: number;
      slots_total: number;
      slots_used: number;
    };
    JoinTokenCreate: {
      pool?: string;
      expires_in_minutes?: number;
    };
    JoinToken: {
      join_token: string;
      pool: string;
      expires_at: string;
    };
    Alarm: {
      id: string;
      key: string;
      severity: "warning" | "critical";
      state: "open" | "acknowledged" | "cleared";
      subject: string;
      message: string;
      opened_at: string;
      acknowledged_at?: string;
      cleared_at?: string;
    };
    Shape: {
      gpu_count: number;
      gpu_model?: string;
      gpu_model_name?: string;
      gpu_mode?: "whole" | "mig" | "shared" | "vgpu";
      gpu_profile?: string;
      gpu_profile_name?: string;
      gpu_memory_mib?: number;
      vcpu: number;
      memory_mib: number;
      disk_mib: number;
    };
    Instance: {
      id: string;
      name: string;
      project: string;
      project_id: string;
      kind: "container" | "vm" | "notebook";
      image: string;
      image_id: string;
      image_digest: string;
      flavor: string;
      flavor_id: string;
      pool: string;
      gpu_count: number;
      gpu_model?: string;
      gpu_model_name?: string;
      gpu_mode?: "whole" | "mig" | "shared" | "vgpu";
      gpu_profile?: string;
      gpu_profile_name?: string;
      gpu_memory_mib?: number;
      vcpu: number;
      memory_mib: number;
      disk_mib: number;
      command?: string[];
      env?: { [key: string]: string };
      labels?: { [key: string]: string };
      desired_state: "running" | "stopped" | "deleted";
      state: "queued" | "starting" | "running" | "stopping" | "stopped" | "failed" | "deleting" | "deleted";
      generation: number;
      observed_generation: number;
      reason?: string;
      message?: string;
      reasons?: components["schemas"]["Reason"][];
      progress?: number;
      exit_code?: number;
      last_lines?: string;
      node?: string;
      address?: string;
      simulated: boolean;
      gpus?: components["schemas"]["Claim"][];
      price_per_hour_micros?: number;
      currency?: string;
      created_by: string;
      created_at: string;
      started_at?: string;
      state_at: string;
      deadline_at?: string;
      deleted_at?: string;
    };
    InstanceCreate: {
      name: string;
      image: string;
      flavor: string;
      kind?: "container" | "vm" | "notebook";
      pool?: string;
      command?: string[];
      env?: { [key: string]: string };
      labels?: { [key: string]: string };
      wait?: boolean;
    };
    DryRun: {
      name?: string;
      image?: string;
      flavor: string;
      kind?: "container" | "vm" | "notebook";
      pool?: string;
      command?: string[];
      env?: { [key: string]: string };
      labels?: { [key: string]: string };
      wait?: boolean;
    };
    DryRunResult: {
      starts_now: boolean;
      price_per_hour_micros?: number;
      currency?: string;
      free_now: number;
      ahead: number;
      reasons?: components["schemas"]["Reason"][];
      pool: string;
      simulated: boolean;
    };
    ExecTicket: {
      ticket: string;
      expires_at: string;
    };
    Event: {
      id: string;
      cursor?: string;
      resource: "instance" | "image" | "project";
      resource_id: string;
      seq: number;
      verb: string;
      message: string;
      at: string;
      data?: { [key: string]: unknown };
    };
    InstanceMetrics: {
      interval_seconds: number;
      samples: components["schemas"]["Sample"][];
      simulated: boolean;
    };
    Sample: {
      at: string;
      cpu_percent: number;
      memory_mib: number;
      net_rx_bytes: number;
      net_tx_bytes: number;
      disk_mib: number;
      pids: number;
      gpu_percent?: number;
      gpu_memory_mib?: number;
      gpu_power_watts?: number;
      gpu_temperature_c?: number;
    };
    Flavor: {
      id: string;
      name: string;
      description: string;
      gpu_count: number;
      gpu_model?: string;
      gpu_model_name?: string;
      gpu_mode?: "whole" | "mig" | "shared" | "vgpu";
      gpu_profile?: string;
      gpu_profile_name?: string;
      gpu_memory_mib?: number;
      vcpu: number;
      memory_mib: number;
      disk_mib: number;
      price_per_hour_micros?: number;
      currency?: string;
      free_now: number;
      free_simulated_now: number;
      created_at: string;
    };
    FlavorCreate: {
      name: string;
      description?: string;
      gpu_count?: number;
      gpu_model?: string;
      gpu_mode?: "whole" | "mig";
      gpu_profile?: string;
      vcpu: number;
      memory_mib: number;
      disk_mib: number;
    };
    Image: {
      id: string;
      name: string;
      kind: "container" | "vm" | "notebook";
      ref: string;
      digest: string;
      size_bytes: number;
      description: string;
      offered: boolean;
      created_at: string;
    };
    ImageCreate: {
      name: string;
      kind?: "container" | "vm" | "notebook";
      ref: string;
      description?: string;
      offered?: boolean;
    };
    Price: {
      id: string;
      sku: string;
      name: string;
      unit: string;
      currency: string;
      micros_per_hour: number;
      starts_at: string;
      current: boolean;
    };
    PriceCreate: {
      sku: string;
      currency?: string;
      micros_per_hour: number;
      starts_at?: string;
    };
    Problem: {
      type: string;
      title: string;
      status: number;
      detail: string;
      code: string;
      hint?: string;
      errors?: components["schemas"]["ProblemField"][];
      request_id?: string;
      resource?: string;
      limit?: number;
      used?: number;
      asked?: number;
      reasons?: components["schemas"]["Reason"][];
      figures?: { [key: string]: unknown };
    };
    ProblemField: {
      location: string;
      message: string;
      value?: unknown;
    };
    Reason: {
      reason: string;
      count: number;
      message?: string;
    };
    LogOptions: {
    };
    Login: {
      email: string;
      password: string;
    };
    Session: {
      access_token: string;
      token_type: "Bearer";
      expires_at: string;
    };
    Me: {
      user: components["schemas"]["User"];
      organisation: components["schemas"]["MyOrganisation"];
      organisations: components["schemas"]["MyOrganisation"][];
      actions: string[];
      token_id?: string;
      version: string;
      cloud_id: string;
    };
    MyOrganisation: {
      id: string;
      name: string;
      role?: string;
    };
    User: {
      id: string;
      email: string;
      name: string;
      operator: boolean;
    };
    Organisation: {
      id: string;
      name: string;
      display_name: string;
      created_at: string;
    };
    OrganisationCreate: {
      name: string;
      display_name?: string;
    };
    Member: {
      user_id: string;
      email: string;
      name: string;
      role: "owner" | "admin" | "member" | "auditor";
      created_at: string;
    };
    MemberCreate: {
      email: string;
      name?: string;
      role: "owner" | "admin" | "member" | "auditor";
      password?: string;
    };
    Project: {
      id: string;
      name: string;
      display_name: string;
      organisation_id: string;
      created_at: string;
    };
    ProjectCreate: {
      name: string;
      display_name?: string;
    };
    ProjectUpdate: {
      display_name: string;
    };
    Quota: {
      resource: "gpu_milli" | "instances" | "memory_mib" | "vcpu";
      limit: number | null;
      used: number;
    };
    QuotaLimit: {
      resource: "gpu_milli" | "instances" | "memory_mib" | "vcpu";
      limit: number | null;
    };
    QuotaUpdate: {
      items: components["schemas"]["QuotaLimit"][];
    };
    Token: {
      id: string;
      name: string;
      hint: string;
      created_at: string;
      expires_at?: string;
      revoked_at?: string;
      last_used_at?: string;
    };
    TokenCreate: {
      name: string;
      expires_in_days?: number;
    };
    TokenCreated: {
      id: string;
      name: string;
      hint: string;
      created_at: string;
      expires_at?: string;
      revoked_at?: string;
      last_used_at?: string;
      secret: string;
    };
    Usage: {
      from: string;
      to: string;
      group_by: "day" | "instance" | "sku";
      currency: string;
      total_micros: number;
      running: number;
      rate_per_hour_micros: number;
      unpriced?: string[];
      items: components["schemas"]["UsageLine"][];
    };
    UsageLine: {
      day?: string;
      instance_id?: string;
      instance?: string;
      sku: string;
      name: string;
      quantity: number;
      unit: string;
      cost_micros: number;
    };
    PageInstance: { items: components["schemas"]["Instance"][]; next_page_token?: string };
    PageImage: { items: components["schemas"]["Image"][]; next_page_token?: string };
    PageToken: { items: components["schemas"]["Token"][]; next_page_token?: string };
    PageEvent: { items: components["schemas"]["Event"][]; next_page_token?: string };
    PageNode: { items: components["schemas"]["Node"][]; next_page_token?: string };
    PageGPU: { items: components["schemas"]["GPU"][]; next_page_token?: string };
    PageProject: { items: components["schemas"]["Project"][]; next_page_token?: string };
    PageAlarm: { items: components["schemas"]["Alarm"][]; next_page_token?: string };
    ListFlavor: { items: components["schemas"]["Flavor"][] };
    ListPool: { items: components["schemas"]["Pool"][] };
    ListQuota: { items: components["schemas"]["Quota"][] };
    ListPrice: { items: components["schemas"]["Price"][] };
  };
}
export interface paths {
  "/v1/auth/login": { parameters: { query?: never; header?: never; path?: never; cookie?: never };
    post: { parameters: { query?: never; path?: never; header?: { "Idempotency-Key"?: string }; cookie?: never }; requestBody: { content: { "application/json": components["schemas"]["Login"] } }; responses: { 200: { headers: {}; content: { "application/json": components["schemas"]["Session"] } }; default: { headers: {}; content: { "application/problem+json": components["schemas"]["Problem"] } } } };
  };
  "/v1/auth/refresh": { parameters: { query?: never; header?: never; path?: never; cookie?: never };
    post: { parameters: { query?: never; path?: never; header?: { "Idempotency-Key"?: string }; cookie?: never }; requestBody?: never; responses: { 200: { headers: {}; content: { "application/json": components["schemas"]["Session"] } }; default: { headers: {}; content: { "application/problem+json": components["schemas"]["Problem"] } } } };
  };
  "/v1/auth/logout": { parameters: { query?: never; header?: never; path?: never; cookie?: never };
    post: { parameters: { query?: never; path?: never; header?: { "Idempotency-Key"?: string }; cookie?: never }; requestBody?: never; responses: { 204: { headers: {}; content?: never }; default: { headers: {}; content: { "application/problem+json": components["schemas"]["Problem"] } } } };
  };
  "/v1/me": { parameters: { query?: never; header?: never; path?: never; cookie?: never };
    get: { parameters: { query?: never; path?: never; header?: { "Idempotency-Key"?: string }; cookie?: never }; requestBody?: never; responses: { 200: { headers: {}; content: { "application/json": components["schemas"]["Me"] } }; default: { headers: {}; content: { "application/problem+json": components["schemas"]["Problem"] } } } };
  };
  "/v1/projects": { parameters: { query?: never; header?: never; path?: never; cookie?: never };
    get: { parameters: { query?: { limit?: number; page_token?: string; }; path?: never; header?: { "Idempotency-Key"?: string }; cookie?: never }; requestBody?: never; responses: { 200: { headers: {}; content: { "application/json": components["schemas"]["PageProject"] } }; default: { headers: {}; content: { "application/problem+json": components["schemas"]["Problem"] } } } };
    post: { parameters: { query?: never; path?: never; header?: { "Idempotency-Key"?: string }; cookie?: never }; requestBody: { content: { "application/json": components["schemas"]["ProjectCreate"] } }; responses: { 200: { headers: {}; content: { "application/json": components["schemas"]["Project"] } }; default: { headers: {}; content: { "application/problem+json": components["schemas"]["Problem"] } } } };
  };
  "/v1/projects/{project}/quotas": { parameters: { query?: never; header?: never; path?: never; cookie?: never };
    get: { parameters: { query?: never; path: { project: string; }; header?: { "Idempotency-Key"?: string }; cookie?: never }; requestBody?: never; responses: { 200: { headers: {}; content: { "application/json": components["schemas"]["ListQuota"] } }; default: { headers: {}; content: { "application/problem+json": components["schemas"]["Problem"] } } } };
  };
  "/v1/tokens": { parameters: { query?: never; header?: never; path?: never; cookie?: never };
    get: { parameters: { query?: { limit?: number; page_token?: string; }; path?: never; header?: { "Idempotency-Key"?: string }; cookie?: never }; requestBody?: never; responses: { 200: { headers: {}; content: { "application/json": components["schemas"]["PageToken"] } }; default: { headers: {}; content: { "application/problem+json": components["schemas"]["Problem"] } } } };
    post: { parameters: { query?: never; path?: never; header?: { "Idempotency-Key"?: string }; cookie?: never }; requestBody: { content: { "application/json": components["schemas"]["TokenCreate"] } }; responses: { 200: { headers: {}; content: { "application/json": components["schemas"]["TokenCreated"] } }; default: { headers: {}; content: { "application/problem+json": components["schemas"]["Problem"] } } } };
  };
  "/v1/tokens/{token}": { parameters: { query?: never; header?: never; path?: never; cookie?: never };
    delete: { parameters: { query?: never; path: { token: string; }; header?: { "Idempotency-Key"?: string }; cookie?: never }; requestBody?: never; responses: { 204: { headers: {}; content?: never }; default: { headers: {}; content: { "application/problem+json": components["schemas"]["Problem"] } } } };
  };
  "/v1/flavors": { parameters: { query?: never; header?: never; path?: never; cookie?: never };
    get: { parameters: { query?: { pool?: string; }; path?: never; header?: { "Idempotency-Key"?: string }; cookie?: never }; requestBody?: never; responses: { 200: { headers: {}; content: { "application/json": components["schemas"]["ListFlavor"] } }; default: { headers: {}; content: { "application/problem+json": components["schemas"]["Problem"] } } } };
  };
  "/v1/images": { parameters: { query?: never; header?: never; path?: never; cookie?: never };
    get: { parameters: { query?: { limit?: number; page_token?: string; }; path?: never; header?: { "Idempotency-Key"?: string }; cookie?: never }; requestBody?: never; responses: { 200: { headers: {}; content: { "application/json": components["schemas"]["PageImage"] } }; default: { headers: {}; content: { "application/problem+json": components["schemas"]["Problem"] } } } };
    post: { parameters: { query?: never; path?: never; header?: { "Idempotency-Key"?: string }; cookie?: never }; requestBody: { content: { "application/json": components["schemas"]["ImageCreate"] } }; responses: { 200: { headers: {}; content: { "application/json": components["schemas"]["Image"] } }; default: { headers: {}; content: { "application/problem+json": components["schemas"]["Problem"] } } } };
  };
  "/v1/images/{image}": { parameters: { query?: never; header?: never; path?: never; cookie?: never };
    delete: { parameters: { query?: never; path: { image: string; }; header?: { "Idempotency-Key"?: string }; cookie?: never }; requestBody?: never; responses: { 204: { headers: {}; content?: never }; default: { headers: {}; content: { "application/problem+json": components["schemas"]["Problem"] } } } };
  };
  "/v1/projects/{project}/instances": { parameters: { query?: never; header?: never; path?: never; cookie?: never };
    get: { parameters: { query?: { limit?: number; page_token?: string; state?: string; }; path: { project: string; }; header?: { "Idempotency-Key"?: string }; cookie?: never }; requestBody?: never; responses: { 200: { headers: {}; content: { "application/json": components["schemas"]["PageInstance"] } }; default: { headers: {}; content: { "application/problem+json": components["schemas"]["Problem"] } } } };
    post: { parameters: { query?: never; path: { project: string; }; header?: { "Idempotency-Key"?: string }; cookie?: never }; requestBody: { content: { "application/json": components["schemas"]["InstanceCreate"] } }; responses: { 200: { headers: {}; content: { "application/json": components["schemas"]["Instance"] } }; default: { headers: {}; content: { "application/problem+json": components["schemas"]["Problem"] } } } };
  };
  "/v1/projects/{project}/instances:dry-run": { parameters: { query?: never; header?: never; path?: never; cookie?: never };
    post: { parameters: { query?: never; path: { project: string; }; header?: { "Idempotency-Key"?: string }; cookie?: never }; requestBody: { content: { "application/json": components["schemas"]["DryRun"] } }; responses: { 200: { headers: {}; content: { "application/json": components["schemas"]["DryRunResult"] } }; default: { headers: {}; content: { "application/problem+json": components["schemas"]["Problem"] } } } };
  };
  "/v1/projects/{project}/instances/{instance}": { parameters: { query?: never; header?: never; path?: never; cookie?: never };
    get: { parameters: { query?: never; path: { project: string; instance: string; }; header?: { "Idempotency-Key"?: string }; cookie?: never }; requestBody?: never; responses: { 200: { headers: {}; content: { "application/json": components["schemas"]["Instance"] } }; default: { headers: {}; content: { "application/problem+json": components["schemas"]["Problem"] } } } };
    delete: { parameters: { query?: never; path: { project: string; instance: string; }; header?: { "Idempotency-Key"?: string }; cookie?: never }; requestBody?: never; responses: { 200: { headers: {}; content: { "application/json": components["schemas"]["Instance"] } }; default: { headers: {}; content: { "application/problem+json": components["schemas"]["Problem"] } } } };
  };
  "/v1/projects/{project}/instances/{instance}/start": { parameters: { query?: never; header?: never; path?: never; cookie?: never };
    post: { parameters: { query?: never; path: { project: string; instance: string; }; header?: { "Idempotency-Key"?: string }; cookie?: never }; requestBody?: never; responses: { 200: { headers: {}; content: { "application/json": components["schemas"]["Instance"] } }; default: { headers: {}; content: { "application/problem+json": components["schemas"]["Problem"] } } } };
  };
  "/v1/projects/{project}/instances/{instance}/stop": { parameters: { query?: never; header?: never; path?: never; cookie?: never };
    post: { parameters: { query?: never; path: { project: string; instance: string; }; header?: { "Idempotency-Key"?: string }; cookie?: never }; requestBody?: never; responses: { 200: { headers: {}; content: { "application/json": components["schemas"]["Instance"] } }; default: { headers: {}; content: { "application/problem+json": components["schemas"]["Problem"] } } } };
  };
  "/v1/projects/{project}/instances/{instance}/restart": { parameters: { query?: never; header?: never; path?: never; cookie?: never };
    post: { parameters: { query?: never; path: { project: string; instance: string; }; header?: { "Idempotency-Key"?: string }; cookie?: never }; requestBody?: never; responses: { 200: { headers: {}; content: { "application/json": components["schemas"]["Instance"] } }; default: { headers: {}; content: { "application/problem+json": components["schemas"]["Problem"] } } } };
  };
  "/v1/projects/{project}/instances/{instance}/events": { parameters: { query?: never; header?: never; path?: never; cookie?: never };
    get: { parameters: { query?: { limit?: number; page_token?: string; }; path: { project: string; instance: string; }; header?: { "Idempotency-Key"?: string }; cookie?: never }; requestBody?: never; responses: { 200: { headers: {}; content: { "application/json": components["schemas"]["PageEvent"] } }; default: { headers: {}; content: { "application/problem+json": components["schemas"]["Problem"] } } } };
  };
  "/v1/projects/{project}/instances/{instance}/metrics": { parameters: { query?: never; header?: never; path?: never; cookie?: never };
    get: { parameters: { query?: never; path: { project: string; instance: string; }; header?: { "Idempotency-Key"?: string }; cookie?: never }; requestBody?: never; responses: { 200: { headers: {}; content: { "application/json": components["schemas"]["InstanceMetrics"] } }; default: { headers: {}; content: { "application/problem+json": components["schemas"]["Problem"] } } } };
  };
  "/v1/projects/{project}/instances/{instance}/exec-tickets": { parameters: { query?: never; header?: never; path?: never; cookie?: never };
    post: { parameters: { query?: never; path: { project: string; instance: string; }; header?: { "Idempotency-Key"?: string }; cookie?: never }; requestBody?: never; responses: { 200: { headers: {}; content: { "application/json": components["schemas"]["ExecTicket"] } }; default: { headers: {}; content: { "application/problem+json": components["schemas"]["Problem"] } } } };
  };
  "/v1/projects/{project}/usage": { parameters: { query?: never; header?: never; path?: never; cookie?: never };
    get: { parameters: { query?: { from?: string; to?: string; group_by?: "day" | "instance"; }; path: { project: string; }; header?: { "Idempotency-Key"?: string }; cookie?: never }; requestBody?: never; responses: { 200: { headers: {}; content: { "application/json": components["schemas"]["Usage"] } }; default: { headers: {}; content: { "application/problem+json": components["schemas"]["Problem"] } } } };
  };
  "/v1/nodes": { parameters: { query?: never; header?: never; path?: never; cookie?: never };
    get: { parameters: { query?: { limit?: number; page_token?: string; }; path?: never; header?: { "Idempotency-Key"?: string }; cookie?: never }; requestBody?: never; responses: { 200: { headers: {}; content: { "application/json": components["schemas"]["PageNode"] } }; default: { headers: {}; content: { "application/problem+json": components["schemas"]["Problem"] } } } };
  };
  "/v1/nodes/{node}": { parameters: { query?: never; header?: never; path?: never; cookie?: never };
    get: { parameters: { query?: never; path: { node: string; }; header?: { "Idempotency-Key"?: string }; cookie?: never }; requestBody?: never; responses: { 200: { headers: {}; content: { "application/json": components["schemas"]["Node"] } }; default: { headers: {}; content: { "application/problem+json": components["schemas"]["Problem"] } } } };
  };
  "/v1/nodes/{node}/drain": { parameters: { query?: never; header?: never; path?: never; cookie?: never };
    post: { parameters: { query?: never; path: { node: string; }; header?: { "Idempotency-Key"?: string }; cookie?: never }; requestBody?: never; responses: { 200: { headers: {}; content: { "application/json": components["schemas"]["Node"] } }; default: { headers: {}; content: { "application/problem+json": components["schemas"]["Problem"] } } } };
  };
  "/v1/nodes/{node}/undrain": { parameters: { query?: never; header?: never; path?: never; cookie?: never };
    post: { parameters: { query?: never; path: { node: string; }; header?: { "Idempotency-Key"?: string }; cookie?: never }; requestBody?: never; responses: { 200: { headers: {}; content: { "application/json": components["schemas"]["Node"] } }; default: { headers: {}; content: { "application/problem+json": components["schemas"]["Problem"] } } } };
  };
  "/v1/gpus": { parameters: { query?: never; header?: never; path?: never; cookie?: never };
    get: { parameters: { query?: { limit?: number; page_token?: string; node?: string; }; path?: never; header?: { "Idempotency-Key"?: string }; cookie?: never }; requestBody?: never; responses: { 200: { headers: {}; content: { "application/json": components["schemas"]["PageGPU"] } }; default: { headers: {}; content: { "application/problem+json": components["schemas"]["Problem"] } } } };
  };
  "/v1/gpus/{gpu}": { parameters: { query?: never; header?: never; path?: never; cookie?: never };
    get: { parameters: { query?: never; path: { gpu: string; }; header?: { "Idempotency-Key"?: string }; cookie?: never }; requestBody?: never; responses: { 200: { headers: {}; content: { "application/json": components["schemas"]["GPU"] } }; default: { headers: {}; content: { "application/problem+json": components["schemas"]["Problem"] } } } };
  };
  "/v1/gpus/metrics": { parameters: { query?: never; header?: never; path?: never; cookie?: never };
    get: { parameters: { query?: never; path?: never; header?: { "Idempotency-Key"?: string }; cookie?: never }; requestBody?: never; responses: { 200: { headers: {}; content: { "application/json": components["schemas"]["GPUMetrics"] } }; default: { headers: {}; content: { "application/problem+json": components["schemas"]["Problem"] } } } };
  };
  "/v1/pools": { parameters: { query?: never; header?: never; path?: never; cookie?: never };
    get: { parameters: { query?: never; path?: never; header?: { "Idempotency-Key"?: string }; cookie?: never }; requestBody?: never; responses: { 200: { headers: {}; content: { "application/json": components["schemas"]["ListPool"] } }; default: { headers: {}; content: { "application/problem+json": components["schemas"]["Problem"] } } } };
  };
  "/v1/capacity": { parameters: { query?: never; header?: never; path?: never; cookie?: never };
    get: { parameters: { query?: never; path?: never; header?: { "Idempotency-Key"?: string }; cookie?: never }; requestBody?: never; responses: { 200: { headers: {}; content: { "application/json": components["schemas"]["Capacity"] } }; default: { headers: {}; content: { "application/problem+json": components["schemas"]["Problem"] } } } };
  };
  "/v1/node-join-tokens": { parameters: { query?: never; header?: never; path?: never; cookie?: never };
    post: { parameters: { query?: never; path?: never; header?: { "Idempotency-Key"?: string }; cookie?: never }; requestBody: { content: { "application/json": components["schemas"]["JoinTokenCreate"] } }; responses: { 200: { headers: {}; content: { "application/json": components["schemas"]["JoinToken"] } }; default: { headers: {}; content: { "application/problem+json": components["schemas"]["Problem"] } } } };
  };
  "/v1/alarms": { parameters: { query?: never; header?: never; path?: never; cookie?: never };
    get: { parameters: { query?: { limit?: number; page_token?: string; all?: boolean; }; path?: never; header?: { "Idempotency-Key"?: string }; cookie?: never }; requestBody?: never; responses: { 200: { headers: {}; content: { "application/json": components["schemas"]["PageAlarm"] } }; default: { headers: {}; content: { "application/problem+json": components["schemas"]["Problem"] } } } };
  };
  "/v1/alarms/{alarm}/acknowledge": { parameters: { query?: never; header?: never; path?: never; cookie?: never };
    post: { parameters: { query?: never; path: { alarm: string; }; header?: { "Idempotency-Key"?: string }; cookie?: never }; requestBody?: never; responses: { 200: { headers: {}; content: { "application/json": components["schemas"]["Alarm"] } }; default: { headers: {}; content: { "application/problem+json": components["schemas"]["Problem"] } } } };
  };
  "/v1/prices": { parameters: { query?: never; header?: never; path?: never; cookie?: never };
    get: { parameters: { query?: never; path?: never; header?: { "Idempotency-Key"?: string }; cookie?: never }; requestBody?: never; responses: { 200: { headers: {}; content: { "application/json": components["schemas"]["ListPrice"] } }; default: { headers: {}; content: { "application/problem+json": components["schemas"]["Problem"] } } } };
  };
}
