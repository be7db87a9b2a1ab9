-- 0007_alert_order.py, SHA-256 293d8901aeb43aefc1e73035cdcd58ab48b3e1a7fd00b1908120f2408a25b603
BEGIN TRANSACTION;
CREATE TABLE alembic_version (
	version_num VARCHAR(32) NOT NULL, 
	CONSTRAINT alembic_version_pkc PRIMARY KEY (version_num)
);
INSERT INTO "alembic_version" VALUES('0007');
CREATE TABLE alerts (
	id VARCHAR(48) NOT NULL, 
	namespace VARCHAR(64) NOT NULL, 
	created_at FLOAT NOT NULL, 
	body TEXT NOT NULL, 
	status VARCHAR(16) NOT NULL, 
	attempts INTEGER NOT NULL, 
	next_at FLOAT NOT NULL, 
	error TEXT, branch VARCHAR(32), 
	PRIMARY KEY (id)
);
INSERT INTO "alerts" VALUES('a id','a namespace',1.5,'a body','a status',1,1.5,'a error','a branch');
CREATE TABLE assignments (
	id VARCHAR(48) NOT NULL, 
	namespace VARCHAR(64) NOT NULL, 
	run_id TEXT NOT NULL, 
	queue JSON NOT NULL, 
	people JSON NOT NULL, 
	"each" INTEGER, 
	user TEXT NOT NULL, 
	created_at FLOAT NOT NULL, 
	PRIMARY KEY (id)
);
INSERT INTO "assignments" VALUES('a id','a namespace','a run_id','{"of": "queue"}','{"of": "people"}',1,'a user',1.5);
CREATE TABLE audit (
	id VARCHAR(32) NOT NULL, 
	at FLOAT NOT NULL, 
	namespace VARCHAR(64), 
	user TEXT, 
	token_id VARCHAR(32), 
	address TEXT, 
	action TEXT NOT NULL, 
	target TEXT, 
	status INTEGER, 
	PRIMARY KEY (id)
);
INSERT INTO "audit" VALUES('a id',1.5,'a namespace','a user','a token_id','a address','a action','a target',1);
CREATE TABLE baselines (
	namespace VARCHAR(64) NOT NULL, 
	name VARCHAR(100) NOT NULL, 
	number INTEGER NOT NULL, 
	at FLOAT NOT NULL, 
	user TEXT NOT NULL, 
	run_id TEXT NOT NULL, 
	file TEXT NOT NULL, 
	reason TEXT, 
	PRIMARY KEY (namespace, name, number)
);
INSERT INTO "baselines" VALUES('a namespace','a name',1,1.5,'a user','a run_id','a file','a reason');
CREATE TABLE jobs (
	id VARCHAR(48) NOT NULL, 
	namespace VARCHAR(64) NOT NULL, 
	kind VARCHAR(32) NOT NULL, 
	request JSON NOT NULL, 
	user TEXT NOT NULL, 
	status VARCHAR(16) NOT NULL, 
	created_at FLOAT NOT NULL, 
	started_at FLOAT, 
	finished_at FLOAT, 
	worker TEXT, 
	lease_until FLOAT, 
	fence INTEGER NOT NULL, 
	stalls INTEGER NOT NULL, 
	is_cancelled BOOLEAN NOT NULL, 
	calls INTEGER NOT NULL, 
	progress JSON, 
	run_id TEXT, 
	result JSON, 
	error TEXT, 
	PRIMARY KEY (id)
);
INSERT INTO "jobs" VALUES('a id','a namespace','a kind','{"of": "request"}','a user','a status',1.5,1.5,1.5,'a worker',1.5,1,1,0,1,'{"of": "progress"}','a run_id','{"of": "result"}','a error');
CREATE TABLE people (
	user VARCHAR(300) NOT NULL, 
	first_seen FLOAT, 
	last_seen FLOAT, 
	disabled_at FLOAT, 
	PRIMARY KEY (user)
);
INSERT INTO "people" VALUES('a user',1.5,1.5,1.5);
CREATE TABLE projects (
	namespace VARCHAR(64) NOT NULL, 
	store_id VARCHAR(32) NOT NULL, alerts JSON, 
	PRIMARY KEY (namespace)
);
INSERT INTO "projects" VALUES('a namespace','a store_id','{"of": "alerts"}');
CREATE TABLE roles (
	user VARCHAR(300) NOT NULL, 
	namespace VARCHAR(64) NOT NULL, 
	role VARCHAR(16) NOT NULL, 
	PRIMARY KEY (user, namespace)
);
INSERT INTO "roles" VALUES('a user','a namespace','a role');
CREATE TABLE run_datasets (
	namespace VARCHAR(64) NOT NULL, 
	run_id TEXT NOT NULL, 
	place INTEGER NOT NULL, 
	name TEXT NOT NULL, 
	selected INTEGER NOT NULL, 
	metrics JSON NOT NULL, 
	PRIMARY KEY (namespace, run_id, place)
);
INSERT INTO "run_datasets" VALUES('a namespace','a run_id',1,'a name',1,'{"of": "metrics"}');
CREATE TABLE runs (
	namespace VARCHAR(64) NOT NULL, 
	id TEXT NOT NULL, 
	signature TEXT NOT NULL, 
	started_at FLOAT NOT NULL, 
	status VARCHAR(16) NOT NULL, 
	verdict VARCHAR(16), 
	partial BOOLEAN, 
	manifest TEXT, 
	kind VARCHAR(16), 
	samples INTEGER NOT NULL, 
	error TEXT, 
	branch TEXT, 
	origin JSON, 
	details TEXT, 
	PRIMARY KEY (namespace, id)
);
INSERT INTO "runs" VALUES('a namespace','a id','a signature',1.5,'a status','a verdict',0,'a manifest','a kind',1,'a error','a branch','{"of": "origin"}','a details');
CREATE TABLE tokens (
	id VARCHAR(32) NOT NULL, 
	hash VARCHAR(64) NOT NULL, 
	kind VARCHAR(16) NOT NULL, 
	user TEXT NOT NULL, 
	scopes JSON NOT NULL, 
	namespaces JSON NOT NULL, 
	created_at FLOAT NOT NULL, 
	expires_at FLOAT NOT NULL, 
	revoked_at FLOAT, granted_by TEXT, 
	PRIMARY KEY (id), 
	UNIQUE (hash)
);
INSERT INTO "tokens" VALUES('a id','a hash','a kind','a user','{"of": "scopes"}','{"of": "namespaces"}',1.5,1.5,1.5,'a granted_by');
CREATE INDEX audit_by_namespace ON audit (namespace, at);
CREATE INDEX audit_by_time ON audit (at);
CREATE INDEX jobs_by_namespace ON jobs (namespace, kind, created_at);
CREATE INDEX jobs_by_run ON jobs (namespace, run_id);
CREATE INDEX jobs_by_status ON jobs (status, lease_until);
CREATE INDEX runs_by_time ON runs (namespace, started_at, id);
CREATE INDEX alerts_by_namespace ON alerts (namespace, created_at);
CREATE INDEX assignments_by_namespace ON assignments (namespace, created_at);
CREATE INDEX alerts_by_branch ON alerts (branch, status);
COMMIT;
