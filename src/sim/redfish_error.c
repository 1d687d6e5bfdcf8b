#include <microhttpd.h>
#include <string.h>

#include "sim/redfish_int.h"

/* The keys are those of DMTF's Base registry 1.15 (DSP8011); the words are this program's, which
 * the standard leaves to each service. */
static const struct {
    const char *key, *severity, *text, *remedy;
} messages[RF_MESSAGE_COUNT] = {
    [RF_SUCCESS] = {"Success", "OK", "Done.", "None"},
    [RF_ACTION_PARAMETER_MISSING] = {"ActionParameterMissing", "Critical",
                                     "The action %1 needs the parameter %2.",
                                     "Send the parameter."},
    [RF_ACTION_PARAMETER_UNKNOWN] = {"ActionParameterUnknown", "Warning",
                                     "The action %1 has no parameter %2.",
                                     "Leave the parameter out."},
    [RF_ACTION_PARAMETER_NOT_LISTED] =
        {"ActionParameterValueNotInList", "Warning",
         "'%1' is not among the values of the parameter %2 of the action %3.",
         "Choose one of the AllowableValues that the resource shows."},
    [RF_EMPTY_JSON] = {"EmptyJSON", "Warning", "The body is an empty JSON object.",
                       "Send the properties to set."},
    [RF_MALFORMED_JSON] = {"MalformedJSON", "Critical", "The body is not a JSON object.",
                           "Send a JSON object."},
    [RF_NO_VALID_SESSION] = {"NoValidSession", "Critical", "There is no such session, or it ended.",
                             "Log in again."},
    [RF_UNAUTHORIZED] = {"ResourceAtUriUnauthorized", "Critical", "Access to '%1' was refused: %2.",
                         "Send valid credentials."},
    [RF_METHOD_NOT_ALLOWED] = {"OperationNotAllowed", "Critical",
                               "This resource does not have that method.",
                               "Use one of the methods in the Allow header."},
    [RF_PAYLOAD_TOO_LARGE] = {"PayloadTooLarge", "Critical",
                              "The body is larger than this service takes.",
                              "Send a smaller body."},
    [RF_PRECONDITION_FAILED] = {"PreconditionFailed", "Critical",
                                "The resource is not the one that If-Match names any more.",
                                "Read the resource again and decide anew."},
    [RF_PROPERTY_MISSING] = {"PropertyMissing", "Warning", "The property %1 is required.",
                             "Send the property."},
    [RF_PROPERTY_NOT_WRITABLE] = {"PropertyNotWritable", "Warning", "The property %1 is read-only.",
                                  "Leave the property out."},
    [RF_PROPERTY_UNKNOWN] = {"PropertyUnknown", "Warning",
                             "The resource has no property %1 that could be set.",
                             "Leave the property out."},
    [RF_PROPERTY_VALUE_CONFLICT] = {"PropertyValueConflict", "Warning",
                                    "The value of %1 does not go together with that of %2.",
                                    "Change one of the two."},
    [RF_PROPERTY_VALUE_NOT_LISTED] = {"PropertyValueNotInList", "Warning",
                                      "'%1' is not among the values of the property %2.",
                                      "Choose one of the AllowableValues that the resource shows."},
    [RF_PROPERTY_VALUE_TYPE] = {"PropertyValueTypeError", "Warning",
                                "The value '%1' has the wrong type for the property %2.",
                                "Send a value of the right type."},
    [RF_QUERY_NOT_SUPPORTED] = {"QueryNotSupported", "Warning",
                                "This service has no query parameters.", "Ask without the query."},
    [RF_RESOURCE_MISSING] = {"ResourceMissingAtURI", "Critical", "There is no resource at '%1'.",
                             "Correct the URI."},
    [RF_SESSION_LIMIT] = {"SessionLimitExceeded", "Critical",
                          "All sessions that this service has are in use.",
                          "End one, or wait until one times out."},
};

static void expand(struct strbuf *out, const char *text, const char *const args[3])
{
    for (; *text != '\0'; text++) {
        if (text[0] == '%' && text[1] >= '1' && text[1] <= '3') {
            const char *arg = args[text[1] - '1'];
            strbuf_adds(out, arg != NULL ? arg : "");
            text++;
        } else {
            strbuf_addc(out, *text);
        }
    }
}

/* What a client sent is said back whole or not at all: half a character would be no UTF-8. */
static const char *shown(const char *arg)
{
    enum { ARG_MAX_BYTES = 255 };
    return arg != NULL && strlen(arg) > ARG_MAX_BYTES ? "(a long text)" : arg;
}

void rf_refuse(struct rf_call *c, int status, enum rf_message m, const char *arg1, const char *arg2,
               const char *arg3)
{
    const char *const args[3] = {shown(arg1), shown(arg2), shown(arg3)};
    struct strbuf text;
    strbuf_init(&text, 1024);
    expand(&text, messages[m].text, args);
    json_t *list = json_array();
    for (int i = 0; i < 3 && args[i] != NULL; i++)
        json_array_append_new(list, json_string(args[i]));
    char id[64];
    (void)snprintf(id, sizeof id, "Base.1.15.%s", messages[m].key);
    json_decref(c->answer);
    c->answer = json_pack("{s:{s:s,s:s,s:[{s:s,s:s,s:s,s:o,s:s,s:s,s:s}]}}", "error", "code", id,
                          "message", text.data, "@Message.ExtendedInfo", "@odata.type",
                          "#Message.v1_1_2.Message", "MessageId", id, "Message", text.data,
                          "MessageArgs", list, "MessageSeverity", messages[m].severity, "Severity",
                          messages[m].severity, "Resolution", messages[m].remedy);
    strbuf_done(&text);
    c->status = status;
    c->xml = NULL;
    c->etag[0] = '\0';
}

json_t *rf_body(struct rf_call *c)
{
    json_t *body = json_loadb(c->body, c->body_len, JSON_REJECT_DUPLICATES, NULL);
    if (json_is_object(body))
        return body;
    json_decref(body);
    rf_refuse(c, MHD_HTTP_BAD_REQUEST, RF_MALFORMED_JSON, NULL, NULL, NULL);
    return NULL;
}
