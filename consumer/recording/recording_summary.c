/* SPDX-License-Identifier: Apache-2.0 */
/* A recording's part of its summary: see recording_summary.h. Owns nothing. */
#include "consumer/recording/recording_summary.h"

#include "consumer/recording/recording_impl.h"

void pfl_recording_summarize_host(const struct pfl_recording *self, size_t host,
                                  struct pfl_summary_host *ret_host)
{
    bool is_left = self->conf.output_path == NULL; /* the session runs on */
    struct pfl_recording_host h;

    pfl_recording_get_host(self, host, &h);
    *ret_host = (struct pfl_summary_host){
        .name = h.report->name,
        .address = h.spec->text,
        .why = h.report->why,
        .is_merged = h.is_merged || (is_left && h.state == PFL_HOST_DONE),
        .trigger = h.report->trigger,
        .is_reference = h.is_reference,
        .packets = h.merged.packets,
        .bytes = h.merged.bytes,
        .sequences = h.merged.sequences,
        .failed_while =
            h.report->why[0] != '\0' ? pfl_host_recording_state_str(h.report->failed_in) : NULL,
        .is_given_up = h.report->is_given_up,
        .fate = h.report->fate,
        .resumes = h.report->resumes,
        .read_seconds = h.report->read_ended_ns > h.report->read_began_ns
                            ? (double)(h.report->read_ended_ns - h.report->read_began_ns) / 1e9
                            : 0,
        .loss_marks = h.merged.loss_marks,
        .refused_packets = h.merged.refused_packets + h.report->skipped_packets,
        .unreadable = h.merged.unreadable,
        .unrepeated_packets = h.merged.unrepeated_packets,
        .lossy_processes = h.merged.lossy_processes,
        .sources = &h.report->sources,
        .is_empty = h.is_merged && h.merged.sequences <= 1, /* the service's own */
        .has_losses = h.report->has_losses,
        .losses = h.report->losses,
        .has_offset = h.has_offset,
        .offset_ns = h.offset_ns,
        .drift_ns = h.drift_ns,
        .error_ns = h.error_ns,
    };
}

void pfl_recording_summarize(const struct pfl_recording *self, struct pfl_summary *summary)
{
    summary->partial = pfl_recording_get_partial(self);
    summary->file_bytes = pfl_recording_get_file_bytes(self);
    summary->why = pfl_recording_get_why(self);
    summary->is_aborted = pfl_recording_is_aborted(self);
    summary->has_file_failed = pfl_recording_has_file_failed(self);
    summary->is_disk_low = pfl_recording_is_disk_low(self);
    summary->has_skew = summary->path != NULL
                            ? pfl_recording_get_skew(self, &summary->skew_ns)
                            : pfl_recording_get_skew_bound(self, &summary->skew_ns);
}
