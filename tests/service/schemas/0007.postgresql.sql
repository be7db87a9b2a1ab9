-- 0007_alert_order.py, SHA-256 293d8901aeb43aefc1e73035cdcd58ab48b3e1a7fd00b1908120f2408a25b603
CREATE TABLE public.alembic_version (
    version_num character varying(32) NOT NULL
);
CREATE TABLE public.alerts (
    id character varying(48) NOT NULL,
    namespace character varying(64) NOT NULL,
    created_at double precision NOT NULL,
    body text NOT NULL,
    status character varying(16) NOT NULL,
    attempts integer NOT NULL,
    next_at double precision NOT NULL,
    error text,
    branch character varying(32)
);
CREATE TABLE public.assignments (
    id character varying(48) NOT NULL,
    namespace character varying(64) NOT NULL,
    run_id text NOT NULL,
    queue json NOT NULL,
    people json NOT NULL,
    each integer,
    "user" text NOT NULL,
    created_at double precision NOT NULL
);
CREATE TABLE public.audit (
    id character varying(32) NOT NULL,
    at double precision NOT NULL,
    namespace character varying(64),
    "user" text,
    token_id character varying(32),
    address text,
    action text NOT NULL,
    target text,
    status integer
);
CREATE TABLE public.baselines (
    namespace character varying(64) NOT NULL,
    name character varying(100) NOT NULL,
    number integer NOT NULL,
    at double precision NOT NULL,
    "user" text NOT NULL,
    run_id text NOT NULL,
    file text NOT NULL,
    reason text
);
CREATE TABLE public.jobs (
    id character varying(48) NOT NULL,
    namespace character varying(64) NOT NULL,
    kind character varying(32) NOT NULL,
    request json NOT NULL,
    "user" text NOT NULL,
    status character varying(16) NOT NULL,
    created_at double precision NOT NULL,
    started_at double precision,
    finished_at double precision,
    worker text,
    lease_until double precision,
    fence integer NOT NULL,
    stalls integer NOT NULL,
    is_cancelled boolean NOT NULL,
    calls integer NOT NULL,
    progress json,
    run_id text,
    result json,
    error text
);
CREATE TABLE public.people (
    "user" character varying(300) NOT NULL,
    first_seen double precision,
    last_seen double precision,
    disabled_at double precision
);
CREATE TABLE public.projects (
    namespace character varying(64) NOT NULL,
    store_id character varying(32) NOT NULL,
    alerts json
);
CREATE TABLE public.roles (
    "user" character varying(300) NOT NULL,
    namespace character varying(64) NOT NULL,
    role character varying(16) NOT NULL
);
CREATE TABLE public.run_datasets (
    namespace character varying(64) NOT NULL,
    run_id text NOT NULL,
    place integer NOT NULL,
    name text NOT NULL,
    selected integer NOT NULL,
    metrics json NOT NULL
);
CREATE TABLE public.runs (
    namespace character varying(64) NOT NULL,
    id text NOT NULL,
    signature text NOT NULL,
    started_at double precision NOT NULL,
    status character varying(16) NOT NULL,
    verdict character varying(16),
    partial boolean,
    manifest text,
    kind character varying(16),
    samples integer NOT NULL,
    error text,
    branch text,
    origin json,
    details text
);
CREATE TABLE public.tokens (
    id character varying(32) NOT NULL,
    hash character varying(64) NOT NULL,
    kind character varying(16) NOT NULL,
    "user" text NOT NULL,
    scopes json NOT NULL,
    namespaces json NOT NULL,
    created_at double precision NOT NULL,
    expires_at double precision NOT NULL,
    revoked_at double precision,
    granted_by text
);
INSERT INTO public.alembic_version VALUES ('0007');
INSERT INTO public.alerts VALUES ('a id', 'a namespace', 1.5, 'a body', 'a status', 1, 1.5, 'a error', 'a branch');
INSERT INTO public.assignments VALUES ('a id', 'a namespace', 'a run_id', '{"of": "queue"}', '{"of": "people"}', 1, 'a user', 1.5);
INSERT INTO public.audit VALUES ('a id', 1.5, 'a namespace', 'a user', 'a token_id', 'a address', 'a action', 'a target', 1);
INSERT INTO public.baselines VALUES ('a namespace', 'a name', 1, 1.5, 'a user', 'a run_id', 'a file', 'a reason');
INSERT INTO public.jobs VALUES ('a id', 'a namespace', 'a kind', '{"of": "request"}', 'a user', 'a status', 1.5, 1.5, 1.5, 'a worker', 1.5, 1, 1, false, 1, '{"of": "progress"}', 'a run_id', '{"of": "result"}', 'a error');
INSERT INTO public.people VALUES ('a user', 1.5, 1.5, 1.5);
INSERT INTO public.projects VALUES ('a namespace', 'a store_id', '{"of": "alerts"}');
INSERT INTO public.roles VALUES ('a user', 'a namespace', 'a role');
INSERT INTO public.run_datasets VALUES ('a namespace', 'a run_id', 1, 'a name', 1, '{"of": "metrics"}');
INSERT INTO public.runs VALUES ('a namespace', 'a id', 'a signature', 1.5, 'a status', 'a verdict', false, 'a manifest', 'a kind', 1, 'a error', 'a branch', '{"of": "origin"}', 'a details');
INSERT INTO public.tokens VALUES ('a id', 'a hash', 'a kind', 'a user', '{"of": "scopes"}', '{"of": "namespaces"}', 1.5, 1.5, 1.5, 'a granted_by');
ALTER TABLE ONLY public.alembic_version
    ADD CONSTRAINT alembic_version_pkc PRIMARY KEY (version_num);
ALTER TABLE ONLY public.alerts
    ADD CONSTRAINT alerts_pkey PRIMARY KEY (id);
ALTER TABLE ONLY public.assignments
    ADD CONSTRAINT assignments_pkey PRIMARY KEY (id);
ALTER TABLE ONLY public.audit
    ADD CONSTRAINT audit_pkey PRIMARY KEY (id);
ALTER TABLE ONLY public.baselines
    ADD CONSTRAINT baselines_pkey PRIMARY KEY (namespace, name, number);
ALTER TABLE ONLY public.jobs
    ADD CONSTRAINT jobs_pkey PRIMARY KEY (id);
ALTER TABLE ONLY public.people
    ADD CONSTRAINT people_pkey PRIMARY KEY ("user");
ALTER TABLE ONLY public.projects
    ADD CONSTRAINT projects_pkey PRIMARY KEY (namespace);
ALTER TABLE ONLY public.roles
    ADD CONSTRAINT roles_pkey PRIMARY KEY ("user", namespace);
ALTER TABLE ONLY public.run_datasets
    ADD CONSTRAINT run_datasets_pkey PRIMARY KEY (namespace, run_id, place);
ALTER TABLE ONLY public.runs
    ADD CONSTRAINT runs_pkey PRIMARY KEY (namespace, id);
ALTER TABLE ONLY public.tokens
    ADD CONSTRAINT tokens_hash_key UNIQUE (hash);
ALTER TABLE ONLY public.tokens
    ADD CONSTRAINT tokens_pkey PRIMARY KEY (id);
CREATE INDEX alerts_by_branch ON public.alerts USING btree (branch, status);
CREATE INDEX alerts_by_namespace ON public.alerts USING btree (namespace, created_at);
CREATE INDEX assignments_by_namespace ON public.assignments USING btree (namespace, created_at);
CREATE INDEX audit_by_namespace ON public.audit USING btree (namespace, at);
CREATE INDEX audit_by_time ON public.audit USING btree (at);
CREATE INDEX jobs_by_namespace ON public.jobs USING btree (namespace, kind, created_at);
CREATE INDEX jobs_by_run ON public.jobs USING btree (namespace, run_id);
CREATE INDEX jobs_by_status ON public.jobs USING btree (status, lease_until);
CREATE INDEX runs_by_time ON public.runs USING btree (namespace, started_at, id);
