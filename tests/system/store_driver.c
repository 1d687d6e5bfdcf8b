/* Makes a database with the rows of one night, for store_docs.t: store_driver PATH PROBE.json */
#include <stdio.h>

#include "base/fsutil.h"
#include "base/mem.h"
#include "store/store.h"

#define T0 INT64_C(1796107831123) /* 2026-12-01 06:50:31.123 */

static void parts(struct store *s, int64_t node, const char *probe)
{
    struct store_component before[] = {
        {.kind = "gpu", .slot = "0000:17:00.0", .identity = "GPU-5f0e", .model = "H200"},
        {.kind = "disk", .slot = "vda", .identity = "D1", .model = "M1", .firmware = "1.2"}};
    store_put_machine(s, node, probe, before, 2, T0 - 86400000);
    store_put_machine(s, node, probe, &before[1], 1, T0);
}

static void night(struct store *s, int64_t node)
{
    struct store_attempt a = {.node_id = node,
                              .stage = "installed",
                              .number = 1,
                              .status = "passed",
                              .started_at = T0 - 90000,
                              .ended_at = T0 - 30000};
    (void)store_put_attempt(s, &a);
    a.stage = "fabric";
    a.status = "failed";
    a.error_code = "failed";
    a.error = "ib_write_bw to gpu018: 191 Gb/s is below 380";
    int64_t id = store_put_attempt(s, &a);
    struct store_step step = {.attempt_id = id, .type = "check", .what = "ib_write_bw"};
    step.status = "failed";
    step.result = "191 Gb/s";
    store_put_step(s, &step);
    struct store_evidence e = {.attempt_id = id, .node_id = node, .kind = "log", .text = "191"};
    e.at = T0;
    (void)store_add_evidence(s, &e);
    struct store_measurement m = {.attempt_id = id, .node_id = node, .name = "ib_write_bw"};
    m.value = 191;
    m.unit = "Gb/s";
    m.limit = 380;
    m.peer = "gpu018";
    store_add_measurement(s, &m);
    struct store_group_run run = {.at = T0, .stage = "fabric", .scope = "rack", .rack = "r02"};
    run.status = "finished";
    run.text = "rack r02: 7 of 8 passed";
    run.ended_at = T0;
    struct store_group_member member = {.node_id = node, .stage = "fabric", .verdict = "fault"};
    member.run_id = store_put_group_run(s, &run);
    member.why = a.error;
    member.at = T0;
    store_put_group_member(s, &member);
    struct store_group_result pair = {.run_id = member.run_id, .rail = -1, .node_id = node};
    pair.peer_id = node;
    pair.metric = m.name;
    pair.value = 191;
    pair.verdict = "low";
    store_put_group_result(s, &pair);
    struct store_stage stage = {.node_id = node, .name = "fabric", .ordinal = 3};
    stage.status = "failed";
    stage.reason = a.error;
    stage.attempt_id = id;
    stage.changed_at = T0;
    store_put_stage(s, &stage);
    stage = (struct store_stage){.node_id = node, .name = "gpu", .ordinal = 4, .status = "stale"};
    stage.drift = "2026-12-01 06:50:31 a sweep found: 7 GPUs instead of 8";
    stage.changed_at = T0;
    store_put_stage(s, &stage);
    struct store_sweep sweep = {.node_id = node, .at = T0, .ok_at = T0, .result = "drift"};
    sweep.next_at = T0 + 6 * 3600 * 1000;
    sweep.text = "found: gpu";
    store_put_sweep(s, &sweep);
    struct store_event event = {.node_id = node, .node = "gpu017", .kind = "attempt.failed"};
    event.at = T0;
    event.stage = "fabric";
    event.attempt_id = id;
    event.text = a.error;
    event.actor = "engine";
    (void)store_add_event(s, &event);
}

static void others(struct store *s, int64_t node, int64_t now)
{
    struct store_token t = {.hash = "00", .node_id = node, .purpose = "install"};
    t.state = "claimed";
    t.changed_at = now;
    store_put_token(s, &t);
    struct store_pending p = {.mac = "52:54:00:00:00:01", .status = "pending"};
    p.last_seen = T0;
    store_put_pending(s, &p);
    struct store_bmc_lock lock = {.address = "10.20.0.9", .reason = "refused", .at = T0};
    store_put_bmc_lock(s, &lock);
    struct store_reservation watts = {
        .node_id = node, .feed = "pdu-r2", .watts = 9000, .state = "boot", .until = T0};
    store_put_reservation(s, &watts);
    struct store_rollout rollout = {.at = T0, .cause = "apply of revision 1", .status = "stopped"};
    struct store_rollout_node member = {.node_id = 1, .status = "failed", .changed_at = T0};
    member.rollout_id = store_put_rollout(s, &rollout);
    store_put_rollout_node(s, &member);
    struct store_revision r = {.at = T0, .author = "root", .summary = "2 nodes"};
    (void)store_add_revision(s, &r);
}

int main(int argc, char **argv)
{
    struct err err = {0};
    struct store *s;
    if (argc != 3)
        return 2;
    struct loop *loop = loop_new();
    char *probe cleanup_free = NULL;
    if (fs_read(argv[2], 1 << 20, &probe, NULL, &err) < 0 ||
        store_open(loop, argv[1], &s, &err) < 0) {
        (void)fprintf(stderr, "%s\n", err.text);
        return 1;
    }
    struct store_node n = {.name = "gpu017", .state = "installed", .admin = "active"};
    n.operation = "idle";
    n.health = "failed";
    n.rack = "r02";
    int64_t id = store_put_node(s, &n);
    n.name = "gpu018";
    n.health = "ok";
    struct store_swap swap = {.node_id = store_put_node(s, &n), .at = T0};
    swap.reason = "system: serial SN-18 -> SN-99";
    swap.probe = probe;
    store_put_swap(s, &swap);
    parts(s, id, probe);
    night(s, id);
    others(s, id, loop_wall(loop));
    store_close(s);
    return loop_free(loop);
}
