/*
 * SQLite's online backup (https://www.sqlite.org/backup.html) on a thread, from a read-only
 * connection that stays in one read transaction: writes go on meanwhile, in the log, and are not in
 * the copy, so it is never begun anew.
 */
#include "store/backup.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/fsutil.h"
#include "base/log.h"
#include "base/mem.h"
#include "store/audit_int.h"
#include "store/task.h"

enum {
    PAGES = 256,
    /* Where a file keeps the number that PRAGMA user_version shows, big-endian:
     * https://www.sqlite.org/fileformat.html#the_database_header */
    USER_VERSION_AT = 60,
    IS_COPY = 1, /* the number in a copy that no daemon has opened yet */
};

static const char ending[] = ".db";

/* A name that ends in ".db" is nothing that cron, sudo, udev or systemd would read from a folder
 * of theirs: the daemon may be root, and who asks need not be. */
static int check_path(const char *path, struct err *err)
{
    struct stat st;
    size_t len = strlen(path);
    for (const char *p = path; *p != '\0'; p++)
        if ((unsigned char)*p < ' ' || *p == 0x7f)
            return err_set(err, ERR_INVALID, "backup: the path holds control characters");
    if (path[0] != '/')
        return err_set(err, ERR_INVALID, "backup: '%s' is not an absolute path", path);
    if (len < sizeof ending || strcmp(path + len - strlen(ending), ending) != 0 ||
        path[len - sizeof ending] == '/')
        return err_set(err, ERR_INVALID, "backup: the name '%s' does not end in %s", path, ending);
    if (lstat(path, &st) == 0)
        return err_set(err, ERR_EXISTS, "backup: %s exists already", path);
    return 0;
}

static int copy_pages(struct task *t, sqlite3 *from, sqlite3 *to)
{
    sqlite3_backup *b = sqlite3_backup_init(to, "main", from, "main");
    int rc = b != NULL ? SQLITE_OK : SQLITE_ERROR;
    while (rc == SQLITE_OK && !atomic_load(&t->stop))
        rc = sqlite3_backup_step(b, PAGES);
    (void)sqlite3_backup_finish(b);
    if (rc == SQLITE_DONE)
        return 0;
    if (rc == SQLITE_OK)
        return err_set(&t->err, ERR_CANCELLED, "backup: stopped");
    return err_set(&t->err, rc == SQLITE_FULL ? ERR_LIMIT : ERR_IO, "backup: %s: %s", t->text,
                   b != NULL ? sqlite3_errstr(rc) : sqlite3_errmsg(to));
}

/* Copies into the (empty) file `name`. */
static int copy_into(struct task *t, const char *name)
{
    sqlite3 *from, *to = NULL;
    if (task_open(t->path, true, &from, &t->err) < 0)
        return -(int)t->err.code;
    int rc = audit_read_end(from, &t->backup.end, &t->err);
    if (rc == -ERR_NOT_FOUND) {
        err_clear(&t->err); /* verification finds that out */
        rc = 0;
    }
    if (rc == 0 && (sqlite3_open_v2(name, &to, SQLITE_OPEN_READWRITE | SQLITE_OPEN_NOMUTEX, NULL) !=
                        SQLITE_OK ||
                    /* nothing is kept of it unless all of it is there */
                    sqlite3_exec(to, "PRAGMA journal_mode=OFF; PRAGMA synchronous=OFF", NULL, NULL,
                                 NULL) != SQLITE_OK))
        rc = err_set(&t->err, ERR_IO, "backup: %s: %s", name, sqlite3_errmsg(to));
    if (rc == 0)
        rc = copy_pages(t, from, to);
    if (sqlite3_close(to) != SQLITE_OK && rc == 0)
        rc = err_set(&t->err, ERR_IO, "backup: closing %s failed", name);
    (void)sqlite3_close(from);
    return rc;
}

static int sync_dir(const char *path, struct err *err)
{
    char *dir cleanup_free = fs_dirname(path);
    int fd = open(dir[0] != '\0' ? dir : "/", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    int rc = fd < 0 || fsync(fd) < 0 ? err_sys(err, errno, "backup: %s", dir) : 0;
    if (fd >= 0)
        (void)close(fd);
    return rc;
}

/* What is at `name` becomes the backup. */
static int keep(struct task *t, const char *name, int fd)
{
    static const unsigned char mark[4] = {0, 0, 0, IS_COPY};
    struct stat st;
    if (pwrite(fd, mark, sizeof mark, USER_VERSION_AT) != (ssize_t)sizeof mark)
        return err_sys(&t->err, errno, "backup: %s", name);
    if (fsync(fd) < 0 || fstat(fd, &st) < 0)
        return err_sys(&t->err, errno, "backup: %s", name);
    t->backup.size = st.st_size;
    if (renameat2(AT_FDCWD, name, AT_FDCWD, t->text, RENAME_NOREPLACE) < 0)
        return err_sys(&t->err, errno, "backup: %s", t->text);
    return sync_dir(t->text, &t->err);
}

static void backup_run(struct task *t)
{
    char *name cleanup_free = xasprintf("%s.XXXXXX", t->text);
    int fd = mkostemp(name, O_CLOEXEC); /* of mode 0600 */
    if (fd < 0) {
        (void)err_sys(&t->err, errno, "backup: %s", t->text);
        return;
    }
    if (copy_into(t, name) < 0 || keep(t, name, fd) < 0)
        (void)unlink(name);
    (void)close(fd);
}

struct op *store_backup(struct store *s, const char *path, op_done_fn done, void *user)
{
    struct task *t = task_new(s, "backup", backup_run);
    t->text = xstrdup(path);
    (void)check_path(path, &t->err);
    return task_start(s, t, done, user);
}

const struct backup_report *store_backup_report(const struct op *op)
{
    return &task_of(op)->backup;
}

/* ---- a copy that is put to work ---- */

#define RESTORED "restored from a backup"

/* What happened after the copy was made is not known: a node may have been installed since, and
 * would be installed again. So nothing goes on by itself. */
static const char settle[] =
    "UPDATE attempts SET status='cancelled', error_code='cancelled', error='" RESTORED "',"
    " ended_at=?1 WHERE status='running'";
static const char settle_steps[] =
    "UPDATE steps SET status='cancelled', ended_at=?1 WHERE status='running'";
static const char settle_tokens[] =
    "UPDATE tokens SET state='dead', why_dead='" RESTORED "', changed_at=?1"
    " WHERE state IN ('armed', 'claimed', 'written')";
static const char settle_nodes[] =
    "UPDATE nodes SET admin='held', hold_by='clusterd', hold_at=?1, hold_reason='" RESTORED
    ": look at the plan, then release it' WHERE removed_at IS NULL AND coalesce(admin, '')"
    " NOT IN ('held', 'maintenance')";

static int settle_all(struct store *s, struct err *err)
{
    static const char *const sqls[] = {settle, settle_steps, settle_tokens, settle_nodes};
    struct statement st;
    for (size_t i = 0; i < ARRAY_LEN(sqls); i++) {
        if (statement_open(s, sqls[i], &st, err) < 0)
            return -(int)err->code;
        put_time(&st, loop_wall(s->loop));
        int rc = store_next(&st, err);
        statement_close(&st);
        if (rc < 0)
            return rc;
    }
    return store_exec(s, "PRAGMA user_version = 0", err);
}

int backup_settle(struct store *s, struct err *err)
{
    struct statement st;
    char text[200];
    if (statement_open(s, "PRAGMA user_version", &st, err) < 0)
        return -(int)err->code;
    int rc = store_next(&st, err);
    bool copy = rc == 1 && get_int(&st) == IS_COPY;
    statement_close(&st);
    if (rc < 0 || !copy)
        return rc < 0 ? rc : 0;
    if (store_exec(s, "BEGIN IMMEDIATE", err) < 0)
        return -(int)err->code;
    if (settle_all(s, err) < 0 || store_exec(s, "COMMIT", err) < 0) {
        (void)sqlite3_exec(s->db, "ROLLBACK", NULL, NULL, NULL);
        return err_wrap(err, RESTORED ": ");
    }
    (void)snprintf(text, sizeof text,
                   "this is a backup that ends at event %lld: all nodes are held until they are "
                   "released",
                   (long long)s->audit.id);
    log_warn("database.restored", "%s", text);
    struct store_event event = {
        .at = loop_wall(s->loop), .kind = "database.restored", .text = text, .actor = "engine"};
    (void)store_add_event(s, &event);
    return 0;
}
