// Sends the beats that tb_source_step (tb/dpi/streams.cc) takes from its buffers. The payload stays as it is
// while valid waits for ready.
module stream_source #(
    parameter int ID = 0,
    parameter int WIDTH = 32
) (
    input  logic             clk,
    input  logic             rst,
    output logic             valid,
    output logic [WIDTH-1:0] payload,
    input  logic             ready
);
  localparam int BITS = (WIDTH + 31) / 32 * 32;

  import "DPI-C" function int tb_source_step(input int id, input bit ready);
  import "DPI-C" function void tb_source_payload(input int id, output bit [BITS-1:0] payload);

  initial valid = 0;

  always @(posedge clk) begin : step
    int action;
    bit [BITS-1:0] next;
    if (rst) valid <= 0;
    else begin
      action = tb_source_step(ID, ready);
      valid <= action[0];
      if (action[1]) begin
        tb_source_payload(ID, next);
        payload <= next[WIDTH-1:0];
      end
    end
  end
endmodule
