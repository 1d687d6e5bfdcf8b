#include "store/times.h"

#include <sqlite3.h>

#include "store/task.h"

/* Of each stage the middle one of its newest passes by duration. */
static const char times_sql[] =
    "WITH passes AS (SELECT stage, max(ended_at - started_at, 1) AS took,"
    "  row_number() OVER (PARTITION BY stage ORDER BY id DESC) AS age"
    "  FROM attempts WHERE status = 'passed' AND ended_at > 0),"
    " sorted AS (SELECT stage, took,"
    "  row_number() OVER (PARTITION BY stage ORDER BY took) AS place,"
    "  count(*) OVER (PARTITION BY stage) AS many FROM passes WHERE age <= 31)"
    " SELECT stage, took FROM sorted WHERE place = many / 2 + 1";

json_t *store_stage_times(const char *path, struct err *err)
{
    sqlite3 *db;
    sqlite3_stmt *rows = NULL;
    if (task_open(path, false, &db, err) < 0)
        return NULL;
    json_t *times = json_object();
    int rc = sqlite3_prepare_v2(db, times_sql, -1, &rows, NULL);
    while (rc == SQLITE_OK || rc == SQLITE_ROW) {
        rc = sqlite3_step(rows);
        if (rc == SQLITE_ROW)
            (void)json_object_set_new(times, (const char *)sqlite3_column_text(rows, 0),
                                      json_real((double)sqlite3_column_int64(rows, 1) / 1000));
    }
    if (rc != SQLITE_DONE) {
        (void)err_set(err, ERR_INVALID, "%s: %s; a backup of clusterd's database is expected", path,
                      sqlite3_errmsg(db));
        json_decref(times);
        times = NULL;
    }
    (void)sqlite3_finalize(rows);
    (void)sqlite3_close(db);
    return times;
}
