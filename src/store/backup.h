/*
 * A copy of the database while the daemon works: one moment of it, whole, in one file.
 */
#pragma once

#include "store/audit.h"

struct backup_report {
    int64_t size;         /* bytes */
    int64_t ms;           /* how long it took */
    struct audit_end end; /* of the chain of events in the copy */
};

/*
 * Copies into `path` (absolute, ends in ".db", must not exist; mode 0600) on a thread of its own:
 * under another name first, fsynced, then renamed. Cancelled or failed, it leaves nothing behind.
 *
 * The copy carries a mark. When store_open() finds it, the copy was put in the database's place,
 * and what happened since it was made is unknown: running attempts end, boot tokens die and all
 * nodes are held, so that no node is installed again only because the copy is older.
 */
struct op *store_backup(struct store *s, const char *path, op_done_fn done, void *user);
const struct backup_report *store_backup_report(const struct op *op);
