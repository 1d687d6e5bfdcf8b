/*
 * Boot tokens: the only thing that makes a netbooted machine do more than boot from its disk.
 *
 * A token is 32 random bytes as hex, bound to a node, an attempt and a purpose. Its text lives in
 * this process's memory only, for as long as a boot script or job must carry it; everywhere else,
 * the database included, a token is the SHA-256 of its text. After a restart the text is gone:
 * claimed and written tokens go on, because the node presents the text and the hashes are compared;
 * armed ones cannot be handed out any more and die ("the daemon restarted"), so they are armed
 * anew.
 *
 *   armed -> claimed -> written -> proven        any -> dead (disarmed, expired, failed)
 *
 * Two phases: token_judge() decides from the table of transitions and changes nothing;
 * token_apply() changes the token and hands the new view to on_change for the database. The caller
 * then lets the commit complete and only afterwards answers the node. The memory is changed before
 * the commit, so that two requests within one commit cannot both win; a daemon that dies between
 * the two has not answered, and finds the older state, which is safe by the rule above.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "base/digest.h"
#include "base/err.h"
#include "base/names.h"

enum token_state { TOKEN_ARMED, TOKEN_CLAIMED, TOKEN_WRITTEN, TOKEN_PROVEN, TOKEN_DEAD };
extern const struct name token_state_names[];
enum token_purpose { TOKEN_DISCOVER, TOKEN_INSTALL };
extern const struct name token_purpose_names[];

enum token_event {
    TOKEN_EV_SERVE,     /* a boot script with the token is handed out */
    TOKEN_EV_CLAIM,     /* the ramdisk asks for its job */
    TOKEN_EV_FACTS,     /* ... reports the hardware */
    TOKEN_EV_PROGRESS,  /* ... says how far it is */
    TOKEN_EV_INSTALLED, /* ... has written and checked the disk */
    TOKEN_EV_PROOF,     /* the installed system booted from that disk */
    TOKEN_EV_DISPROOF,  /* it booted, but what it says contradicts the order */
    TOKEN_EV_FAILED,    /* the ramdisk gives up */
    TOKEN_EV_DISARM,
    TOKEN_EV_EXPIRE,
    TOKEN_EV_RESTART, /* the daemon starts and finds the token in its database */
    TOKEN_EV_COUNT
};
extern const struct name token_event_names[];

#define TOKEN_TEXT_SIZE 65
#define BOOT_ID_SIZE 40
#define TOKEN_WHY_SIZE 160

/* What the database keeps of a token. Times are UTC ms. */
struct token_view {
    char hash[DIGEST_HEX_SIZE];
    int64_t node, attempt;
    enum token_purpose purpose;
    enum token_state state;
    char image_sha256[DIGEST_HEX_SIZE]; /* "" for discover */
    char ramdisk_boot_id[BOOT_ID_SIZE]; /* "" until claimed */
    char proof_boot_id[BOOT_ID_SIZE];   /* "" until proven */
    int64_t armed_at, expires_at, changed_at;
    char why_dead[TOKEN_WHY_SIZE];
};

struct token {
    struct token_view view;
    char text[TOKEN_TEXT_SIZE]; /* "" when not known (restored) or no longer needed */
    char host_key[600];         /* as reported by the install; "" */
    char peer[46];              /* address that claimed it; "" */
    int64_t seen_at;            /* last authenticated request, monotonic ms; 0: never */
    int64_t pause_s;            /* for how long it was told to wait then */
    int64_t progress_at;        /* last progress passed on, monotonic ms */
    bool facts;                 /* facts were received */
    bool lost_order;            /* restored: what the job said is not known any more */
    struct token *handed;       /* discover: the install token given to this ramdisk */
    void *order;                /* owner's data for the job; freed by free_order */
    struct token *next_of_node; /* live and recent tokens of the same node */
};

struct tokens;
typedef void (*token_change_fn)(const struct token_view *t, void *user);

/* on_change runs inside token_arm/apply/..., for every change; free_order may be NULL. */
struct tokens *tokens_new(token_change_fn on_change, void (*free_order)(void *order), void *user);
void tokens_free(struct tokens *ts);
size_t tokens_count(const struct tokens *ts);

/*
 * Makes a token. Others of the same node and purpose die ("replaced"), unclaimed discover tokens
 * too when an install is armed. image_sha256 NULL: none.
 */
struct token *token_arm(struct tokens *ts, int64_t node, int64_t attempt,
                        enum token_purpose purpose, const char *image_sha256, int64_t now,
                        int64_t expires_at);
/* From the database at start. Armed ones die here (on_change tells); returns NULL for those. */
struct token *token_restore(struct tokens *ts, const struct token_view *row, int64_t now);

struct token *token_find(struct tokens *ts, const char *hash);
/* By the text that a request presented; NULL when it is malformed or unknown. */
struct token *token_find_text(struct tokens *ts, const char *text);
/* The first token of the node with that purpose and state, or NULL. */
struct token *token_of_node(struct tokens *ts, int64_t node, enum token_purpose purpose,
                            enum token_state state);

/* Who presents the token; "" where not known. Repeats are told from replays by it. */
struct token_claimer {
    const char *boot_id, *peer;
};

struct token_verdict {
    bool allowed;
    bool changes; /* token_apply must be called and committed before the answer */
    bool replay;  /* refused because somebody else used the token before */
    enum token_state next;
    int status; /* HTTP: 204 when allowed, else 401, 409, 410 */
    char why[TOKEN_WHY_SIZE];
};
/* Pure. For PROOF boot_id is the booted system's. */
struct token_verdict token_judge(const struct token *t, enum token_event ev,
                                 const struct token_claimer *who, int64_t now);
/* Carries out an allowed verdict; `why` is kept when the token dies (NULL: the verdict's). */
void token_apply(struct tokens *ts, struct token *t, enum token_event ev,
                 const struct token_verdict *v, const struct token_claimer *who, const char *why,
                 int64_t now);

/* judge + apply for events that no node sends. Unknown hash or already final: no effect. */
void token_disarm(struct tokens *ts, const char *hash, const char *why, int64_t now);
/* Ends what is due and forgets what has been final for an hour. O(tokens); once a second. */
void token_expire(struct tokens *ts, int64_t now);

/* One row of the table of transitions, for tests and documentation. */
struct token_transition {
    enum token_state state;
    enum token_event event;
    enum token_state next;
};
extern const struct token_transition token_transitions[];
extern const int token_transition_count;
